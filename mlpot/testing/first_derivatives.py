"""Forces and stress against finite differences of the energy."""

from __future__ import annotations

import numpy as np

from mlpot.models import Potential

from .evaluation import STEPS, displaced, evaluate, evaluate_all, expect_close, four_point
from .structures import every_kind, one_atom_cell, triclinic

_STEP = 1e-4
_TOLERANCE = 1e-6


def forces(potential: Potential, seed: int = 0) -> None:
    """Forces are minus central differences of the energy, whatever the periodicity."""
    for name, structure in every_kind(potential, seed).items():
        whole = evaluate_all(potential, [structure, *displaced(structure, _STEP)])
        energies = whole.energy[1:].reshape(-1, 4)
        expect_close(
            whole.forces[: len(structure.numbers)],
            -four_point(energies, _STEP).reshape(-1, 3),
            _TOLERANCE,
            f"force (eV/Angstrom) in a {name}",
            "-dE/dR by differences",
        )


def stress(potential: Potential, seed: int = 0) -> None:
    """All six components of the stress are differences of the energy in strain over volume."""
    rng = np.random.default_rng(seed)
    builders = {"triclinic crystal": triclinic, "one-atom cell": one_atom_cell}
    for name, build in builders.items():
        structure = build(potential, rng)
        volume = abs(np.linalg.det(structure.cell))
        strained = []
        for a, b in zip(*np.triu_indices(3), strict=True):
            direction = np.zeros((3, 3))
            direction[a, b] += 0.5
            direction[b, a] += 0.5
            strained += [structure.mapped(np.eye(3) + s * _STEP * direction) for s in STEPS]
        energies = evaluate_all(potential, strained).energy.reshape(6, 4)
        found = evaluate(potential, structure).stress[0]
        expect_close(found, found.T, 1e-12, f"stress of a {name}", "its transpose")
        expect_close(
            found[np.triu_indices(3)],
            four_point(energies, _STEP) / volume,
            _TOLERANCE,
            f"stress (eV/Angstrom^3; xx xy xz yy yz zz) of a {name}",
            "dE/dstrain/V by differences",
        )
    for name in ("cluster", "slab"):
        tensor = evaluate(potential, every_kind(potential, seed)[name]).stress
        expect_close(tensor, 0.0, 0.0, f"stress of a {name}, which has no volume")
