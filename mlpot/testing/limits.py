"""Supercells, atoms alone and structures without edges."""

from __future__ import annotations

import math

import mlx.core as mx
import numpy as np

from mlpot import derivatives
from mlpot.models import Potential

from .evaluation import evaluate, expect_close, expect_zero
from .structures import Structure, atoms_at, one_atom_cell, repeated, triclinic


def supercell(potential: Potential, seed: int = 0) -> None:
    """A supercell has the same energy per atom, forces and stress."""
    rng = np.random.default_rng(seed)
    for name, build in {"triclinic crystal": triclinic, "one-atom cell": one_atom_cell}.items():
        small = build(potential, rng)
        before = evaluate(potential, small)
        size = before.virial(small)
        for counts in ((2, 1, 1), (1, 2, 3)):
            after = evaluate(potential, repeated(small, counts))
            n, label = math.prod(counts), f"{counts} supercell of a {name}"
            expect_close(
                after.energy / n, before.energy, 1e-9, f"energy per cell of a {label}", scale=size
            )
            expect_close(
                after.forces,
                np.tile(before.forces, (n, 1)),
                1e-9,
                f"force in a {label}",
                scale=size,
            )
            expect_close(after.stress, before.stress, 1e-9, f"stress of a {label}")
        if name == "one-atom cell":
            expect_close(before.forces, 0.0, 1e-9, "force on the only atom of a cell", scale=size)


def _nothing(potential: Potential, structure: Structure, what: str) -> None:
    """Exactly E0, no forces, no curvature."""
    graph = structure.graph(potential)
    results = derivatives.energy_forces_stress(potential, graph)
    expect_zero(results.interaction_energy, f"interaction energy (eV) of {what}")
    expect_zero(results.forces, f"forces of {what}")
    expect_zero(results.stress, f"stress of {what}")
    expect_zero(derivatives.hessian(potential, graph), f"Hessian of {what}")
    E0s = potential.config.E0s
    total = sum(E0s.get(int(z), 0.0) for z in structure.numbers)
    expect_close(results.energy, total, 1e-15, f"total energy (eV) of {what}", "sum of E0")


def isolated_atom(potential: Potential, seed: int = 0) -> None:
    """One atom alone has exactly its E0, no force and no Hessian, in an empty cell too."""
    for z in potential.numbers:
        where = np.random.default_rng(seed).uniform(-2, 2, (1, 3))
        alone = atoms_at([z], where)
        _nothing(potential, alone, f"one atom of element {z} alone")
        wide = 3 * potential.cutoff * np.eye(3)
        boxed = Structure(alone.numbers, where, wide, (True, True, True))
        _nothing(potential, boxed, f"one atom of element {z} in a wide cell")


def beyond_cutoff(potential: Potential, seed: int = 0) -> None:
    """Atoms at and beyond the cutoff do not see each other."""
    rng = np.random.default_rng(seed)
    numbers = potential.numbers
    for distance in (potential.cutoff, 1.001 * potential.cutoff, 10 * potential.cutoff):
        pair = [numbers[0], numbers[-1]]
        _nothing(
            potential,
            atoms_at(pair, [[0.0, 0.0, 0.0], [0.0, distance, 0.0]]),
            f"two atoms {distance:.6g} Angstrom apart (cutoff {potential.cutoff:.6g})",
        )
    chain = np.arange(5)[:, None] * np.array([0.0, 0.0, 1.01 * potential.cutoff])
    many = atoms_at(rng.choice(numbers, 5), chain)
    _nothing(potential, many, "five atoms without an edge")


def third_atom_far_away(potential: Potential, seed: int = 0) -> None:
    """An atom beyond the cutoff leaves a pair as it is and feels nothing."""
    rng = np.random.default_rng(seed)
    z = [potential.numbers[0], potential.numbers[-1], potential.numbers[0]]
    direction = rng.normal(size=3)
    direction /= np.linalg.norm(direction)
    xyz = np.array(
        [np.zeros(3), 0.4 * potential.cutoff * direction, 5e1 * potential.cutoff * direction]
    )
    pair = evaluate(potential, atoms_at(z[:2], xyz[:2]))
    three = atoms_at(z, xyz)
    both = evaluate(potential, three)
    expect_close(both.energy, pair.energy, 1e-12, "energy of a pair and a distant atom", "pair")
    expect_close(both.forces[:2], pair.forces, 1e-12, "force on a pair beside a distant atom")
    expect_zero(both.forces[2], "force on a distant atom")
    v = mx.array(rng.normal(size=(3, 3)), dtype=mx.float64)
    product = np.array(derivatives.hvp(potential, three.graph(potential), v))
    expect_zero(product[2], "Hessian-vector product on a distant atom")
