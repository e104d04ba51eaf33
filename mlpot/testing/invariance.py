"""What must not change the energy, and how forces and stress follow."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mlpot.models import Potential

from .evaluation import Values, evaluate, expect_close
from .structures import Structure, every_kind, rotation

_TOLERANCE = 1e-9


def _compare(found: Values, expected: Values, what: str, scale: float) -> None:
    expect_close(found.energy, expected.energy, _TOLERANCE, f"energy of a {what}", "before", scale)
    expect_close(found.forces, expected.forces, _TOLERANCE, f"force in a {what}", "before", scale)
    expect_close(found.stress, expected.stress, _TOLERANCE, f"stress of a {what}", "before", scale)


def _map(potential: Potential, seed: int, matrix: np.ndarray, verb: str) -> None:
    for name, structure in every_kind(potential, seed).items():
        before = evaluate(potential, structure)
        after = evaluate(potential, structure.mapped(matrix))
        expected = replace(
            before, forces=before.forces @ matrix, stress=matrix.T @ before.stress @ matrix
        )
        _compare(after, expected, f"{name} {verb}", before.virial(structure))


def rotations(potential: Potential, seed: int = 0) -> None:
    """A rotation keeps the energy and rotates forces and stress."""
    _map(potential, seed, rotation(np.random.default_rng(seed + 1)), "after a rotation")


def reflections(potential: Potential, seed: int = 0) -> None:
    """A reflection (and inversion) keeps the energy and reflects forces and stress."""
    turn = rotation(np.random.default_rng(seed + 1))
    _map(potential, seed, turn @ np.diag([1.0, -1.0, 1.0]) @ turn.T, "after a reflection")
    _map(potential, seed, -np.eye(3), "after an inversion")


def permutation(potential: Potential, seed: int = 0) -> None:
    """The order of the atoms does not matter."""
    rng = np.random.default_rng(seed + 1)
    for name, structure in every_kind(potential, seed).items():
        order = np.roll(rng.permutation(len(structure.numbers)), 1)
        before = evaluate(potential, structure)
        swapped = Structure(
            structure.numbers[order], structure.positions[order], structure.cell, structure.pbc
        )
        expected = replace(before, forces=before.forces[order])
        _compare(
            evaluate(potential, swapped),
            expected,
            f"{name} after a permutation",
            before.virial(structure),
        )


def translation(potential: Potential, seed: int = 0) -> None:
    """Moving all atoms by 100 Angstrom changes nothing."""
    step = np.array([100.0, -100.0, 100.0])
    for name, structure in every_kind(potential, seed).items():
        before = evaluate(potential, structure)
        after = evaluate(potential, structure.moved(structure.positions + step))
        _compare(after, before, f"{name} 100 Angstrom away", before.virial(structure))


def lattice_translation(potential: Potential, seed: int = 0) -> None:
    """Moving one atom by lattice vectors changes nothing; the cell of open directions neither."""
    for name, structure in every_kind(potential, seed).items():
        before = evaluate(potential, structure)
        xyz = structure.positions.copy()
        xyz[0] += np.array([2, -1, 3]) * np.array(structure.pbc) @ structure.cell
        _compare(
            evaluate(potential, structure.moved(xyz)),
            before,
            f"{name} with an atom in another image",
            before.virial(structure),
        )
        rows = np.where(np.array(structure.pbc)[:, None], structure.cell, 0.1 * np.ones((3, 3)))
        dummy = replace(structure, cell=rows)
        _compare(
            evaluate(potential, dummy),
            before,
            f"{name} with dummy rows along open directions",
            before.virial(structure),
        )
