"""Force constants from exact second derivatives or from displacements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from ase import Atoms
from jaxtyping import Float

from mlpot.calculators import MLPotCalculator

from .kept_forces import KeptForces

#: Exact products between two looks at whether to keep them on disk.
_TOGETHER = 16


def linear_forces(
    calc: MLPotCalculator,
    supercell: Atoms,
    displacements: Float[np.ndarray, "n_displacements n_supercell 3"],
    chunk: int | None,
    progress: Callable[[int, int], None],
    kept: KeptForces | None = None,
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
        kept: holds what was computed before the calculation was stopped.

    Returns:
        (n_displacements, n_supercell, 3), eV/Angstrom.
    """
    kept = kept or KeptForces(None, calc, supercell, displacements)
    wanted = len(displacements)
    with kept:
        while (done := len(kept.forces)) < wanted:
            part = displacements[done : done + _TOGETHER]
            found = calc.get_hvps(
                supercell,
                part,
                chunk=chunk,
                progress=lambda n, _, done=done: progress(done + n, wanted),
            )
            kept.add(-found)
    return kept.forces


def displaced_forces(
    calc: Any,
    supercells: list[Atoms],
    progress: Callable[[int, int], None],
    kept: KeptForces | None = None,
) -> Float[np.ndarray, "n_displacements n_supercell 3"]:
    """Forces in displaced supercells.

    Args:
        calc: ASE calculator.
        supercells: the structures.
        progress: called with (structures done, structures wanted).
        kept: holds what was computed before the calculation was stopped.

    Returns:
        (n_displacements, n_supercell, 3), eV/Angstrom.
    """
    moved = np.array([s.positions for s in supercells])
    kept = kept or KeptForces(None, calc, supercells[0], moved)

    def forces_in(atoms: Atoms) -> np.ndarray:
        atoms.calc = calc
        return np.asarray(atoms.get_forces(), dtype=np.float64)

    if len(kept.forces) and not isinstance(calc, MLPotCalculator):
        kept.check_first(forces_in(supercells[0]))
    with kept:
        while (done := len(kept.forces)) < len(supercells):
            kept.add(forces_in(supercells[done])[None])
            progress(done + 1, len(supercells))
    return kept.forces


def sum_rule_violation(force_constants: Float[np.ndarray, "n_rows n_supercell 3 3"]) -> float:
    """Largest component of sum_j Phi_ij, eV/Angstrom^2; zero where a shift of all is free."""
    return float(np.abs(force_constants.sum(axis=1)).max())
