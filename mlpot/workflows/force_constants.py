"""Force constants from exact second derivatives or from displacements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from ase import Atoms
from jaxtyping import Float

from mlpot.calculators import MLPotCalculator


def linear_forces(
    calc: MLPotCalculator,
    supercell: Atoms,
    displacements: Float[np.ndarray, "n_displacements n_supercell 3"],
    chunk: int | None,
    progress: Callable[[int, int], None],
) -> Float[np.ndarray, "n_displacements n_supercell 3"]:
    """Forces to first order in displacements: minus exact Hessian-vector products.

    What displaced supercells give in the limit of small displacements, without the error of
    finite ones, all at the undisplaced positions and several at once.

    Args:
        calc: in float64.
        supercell: (n_supercell) atoms.
        displacements: (n_displacements, n_supercell, 3), Angstrom.
        chunk: displacements at a time; by default as many as fit the memory.
        progress: called with (displacements done, displacements wanted).

    Returns:
        (n_displacements, n_supercell, 3), eV/Angstrom.
    """
    return -calc.get_hvps(supercell, displacements, chunk=chunk, progress=progress)


def displaced_forces(
    calc: Any, supercells: list[Atoms], progress: Callable[[int, int], None]
) -> Float[np.ndarray, "n_displacements n_supercell 3"]:
    """Forces in displaced supercells.

    Args:
        calc: ASE calculator.
        supercells: the structures.
        progress: called with (structures done, structures wanted).

    Returns:
        (n_displacements, n_supercell, 3), eV/Angstrom.
    """
    forces = []
    for done, atoms in enumerate(supercells, start=1):
        atoms.calc = calc
        forces.append(np.asarray(atoms.get_forces(), dtype=np.float64))
        progress(done, len(supercells))
    return np.array(forces)


def sum_rule_violation(force_constants: Float[np.ndarray, "n_rows n_supercell 3 3"]) -> float:
    """Largest component of sum_j Phi_ij, eV/Angstrom^2; zero where a shift of all is free."""
    return float(np.abs(force_constants.sum(axis=1)).max())
