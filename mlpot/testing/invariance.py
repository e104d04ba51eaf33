"""What must not change the energy, and how forces and stress follow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from mlpot.models import Potential

from .evaluation import Values, evaluate_each, expect_close
from .structures import Structure, every_kind, rotation

_TOLERANCE = 1e-9


def _compare(
    potential: Potential,
    seed: int,
    change: Callable[[Structure], Structure],
    follow: Callable[[Values], Values],
    verb: str,
) -> None:
    """Values of every kind of structure after a change are what follows from those before."""
    kinds = every_kind(potential, seed)
    structures = list(kinds.values())
    found = evaluate_each(potential, [*structures, *map(change, structures)])
    n = len(structures)
    for name, structure, before, after in zip(kinds, structures, found[:n], found[n:], strict=True):
        expected, scale = follow(before), before.virial(structure)
        for what in ("energy", "forces", "stress"):
            expect_close(
                getattr(after, what),
                getattr(expected, what),
                _TOLERANCE,
                f"{what} of a {name} {verb}",
                "before",
                scale,
            )


def _same(values: Values) -> Values:
    return values


def _map(potential: Potential, seed: int, matrix: np.ndarray, verb: str) -> None:
    def follow(before: Values) -> Values:
        turned = matrix.T @ before.stress @ matrix
        return replace(before, forces=before.forces @ matrix, stress=turned)

    _compare(potential, seed, lambda s: s.mapped(matrix), follow, verb)


def rotations(potential: Potential, seed: int = 0) -> None:
    """A rotation keeps the energy and rotates forces and stress."""
    _map(potential, seed, rotation(np.random.default_rng(seed + 1)), "after a rotation")


def reflections(potential: Potential, seed: int = 0) -> None:
    """A reflection (and inversion) keeps the energy and reflects forces and stress.

    A potential that says it is not mirror symmetric is not held to it.
    """
    if not potential.mirror_symmetric:
        return
    turn = rotation(np.random.default_rng(seed + 1))
    _map(potential, seed, turn @ np.diag([1.0, -1.0, 1.0]) @ turn.T, "after a reflection")
    _map(potential, seed, -np.eye(3), "after an inversion")


def permutation(potential: Potential, seed: int = 0) -> None:
    """The order of the atoms does not matter."""

    def swapped(structure: Structure) -> Structure:
        numbers, xyz = structure.numbers, structure.positions
        return replace(structure, numbers=np.roll(numbers, 1), positions=np.roll(xyz, 1, axis=0))

    def follow(before: Values) -> Values:
        return replace(before, forces=np.roll(before.forces, 1, axis=0))

    _compare(potential, seed, swapped, follow, "after a permutation")


def translation(potential: Potential, seed: int = 0) -> None:
    """Moving all atoms by 100 Angstrom changes nothing."""
    step = np.array([100.0, -100.0, 100.0])
    _compare(
        potential, seed, lambda s: s.moved(s.positions + step), _same, "100 Angstrom further on"
    )


def lattice_translation(potential: Potential, seed: int = 0) -> None:
    """Moving one atom by lattice vectors changes nothing; the cell of open directions neither."""

    def imaged(structure: Structure) -> Structure:
        xyz = structure.positions.copy()
        xyz[0] += np.array([2, -1, 3]) * np.array(structure.pbc) @ structure.cell
        return structure.moved(xyz)

    def dummy(structure: Structure) -> Structure:
        periodic = np.array(structure.pbc)[:, None]
        return replace(structure, cell=np.where(periodic, structure.cell, 0.1 * np.ones((3, 3))))

    _compare(potential, seed, imaged, _same, "with an atom in another image")
    _compare(potential, seed, dummy, _same, "with dummy rows along open directions")
