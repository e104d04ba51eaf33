"""Force constants from exact second derivatives or from displacements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from ase import Atoms
from jaxtyping import Float

from mlpot.calculators import MLPotCalculator


def exact_force_constants(
    calc: MLPotCalculator,
    supercell: Atoms,
    rows: list[int],
    chunk: int,
    progress: Callable[[int, int], None],
) -> Float[np.ndarray, "n_rows n_supercell 3 3"]:
    """Second derivatives of the energy of a supercell, the rows of some of its atoms.

        Phi_ij = d^2 E / dR_i dR_j

    Args:
        calc: in float64.
        supercell: (n_supercell) atoms.
        rows: atoms i, those of the primitive cell.
        chunk: rows of the Hessian computed at a time.
        progress: called with (rows done, rows wanted).

    Returns:
        (n_rows, n_supercell, 3, 3), eV/Angstrom^2.
    """
    matrix = calc.get_hessian(supercell, rows=rows, chunk=chunk, progress=progress)
    blocks = matrix.reshape(len(rows), 3, len(supercell), 3)
    return np.ascontiguousarray(blocks.swapaxes(1, 2))


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
