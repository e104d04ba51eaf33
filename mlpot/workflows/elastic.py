"""Elastic constants of a crystal."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from ase import Atoms
from rich.console import Console

from mlpot import derivatives
from mlpot.units import GPA

from .elastic_result import Elastic, output_paths
from .outputs import check_outputs
from .precision import check_elements, choose_method, in_float64
from .progress import bar
from .relaxation import relax_and_report
from .vacuum import tell_vacuum

#: Optical modes softer than this (eV/Angstrom^2) are left out of the atoms' response: rigid shifts.
_RIGID = 1e-6


def elastic(
    atoms: Atoms,
    calc: Any,
    relax: bool = True,
    *,
    method: str | None = None,
    strain: float = 2e-3,
    fmax: float = 1e-4,
    steps: int = 500,
    out: str | os.PathLike[str] | None = None,
    name: str | None = None,
    plot: bool = True,
    overwrite: bool = False,
    console: Console | None = None,
) -> Elastic:
    """Elastic constants with clamped and with relaxed ions, and the moduli that follow.

        clamped   C_ab = (1/V) d2E/de_a de_b
        relaxed   C_ab - (1/V) L_a H^-1 L_b,    L = d2E/de dR,  H = d2E/dR dR

    Potentials of mlpot are computed in float64. Their second derivatives are exact
    ("derivatives"); other calculators are strained by small amounts ("strains"), with the atoms
    relaxed at each strain. The definitions hold at zero stress: relax the cell first, or read the
    remaining stress in the result.

    Args:
        atoms: unit cell, periodic in three directions; not changed, constraints are ignored.
        calc: ASE calculator.
        relax: relax atoms and cell first, keeping the space group.
        method: "derivatives" (needs potentials of mlpot, the default for them) or "strains".
        strain: size of the strains of the method "strains".
        fmax: how far atoms and cell are relaxed, eV/Angstrom.
        steps: of a relaxation at most.
        out: folder for the files; nothing is written by default.
        name: what file names begin with; the formula by default.
        plot: whether the picture is among the files.
        overwrite: whether existing files are replaced.
        console: where progress is shown; standard output by default.

    Returns:
        The result.

    Raises:
        ValueError: a structure that is no crystal, unknown elements or method, a relaxation that
            did not end, or files that exist already.
    """
    method = choose_method(method, calc, "derivatives", "strains")
    if not 0 < strain < 0.05:
        raise ValueError(f"strain is {strain}: give a small one, such as 0.002")
    check_elements(atoms, calc)
    if not atoms.pbc.all():
        raise ValueError(
            f"the structure is periodic along {atoms.pbc.tolist()} only; elastic constants need a "
            "crystal, periodic in three directions"
        )
    name = name or atoms.get_chemical_formula()
    if out is not None:
        check_outputs(output_paths(out, name, plot).values(), overwrite)
    console = Console() if console is None else console
    calc = in_float64(calc)
    unit = atoms.copy()
    unit.set_constraint()
    tell_vacuum(unit, calc, "elastic constants", console)
    if relax:
        unit, report = relax_and_report(unit, calc, fmax, True, steps, True, console)
        if not report.converged:
            raise ValueError(f"{report}; give more steps than {steps}, or a better structure")
        console.print(f"{report}.", highlight=False)
    unit.calc = calc
    stress = np.asarray(unit.get_stress()) / GPA
    if method == "derivatives":
        clamped, relaxed = _from_derivatives(unit, calc, console)
        unrelaxed = 0
    else:
        clamped, relaxed, unrelaxed = _from_strains(unit, calc, strain, fmax, steps, console)
    unit.calc = None
    result = Elastic(unit, clamped / GPA, relaxed / GPA, stress, method, unrelaxed)
    console.print(result.table(), highlight=False)
    if out is not None:
        result.write(out, name, plot, overwrite)
    return result


def _from_derivatives(unit: Atoms, calc: Any, console: Console) -> tuple[np.ndarray, np.ndarray]:
    found = calc.get_strain_derivatives(unit)
    clamped = found.hessian / found.volume
    with bar(console, "second derivatives", 3 * len(unit)) as progress:
        hessian = calc.get_hessian(unit, progress=progress)
    values, vectors = np.linalg.eigh(0.5 * (hessian + hessian.T))
    # A rigid shift of all atoms costs nothing, so the inverse is taken without it.
    stiff = np.abs(values) > _RIGID
    coupling = found.mixed.reshape(6, -1) @ vectors[:, stiff]
    response = (coupling / values[stiff]) @ coupling.T / found.volume
    return clamped, clamped - response


def _from_strains(
    unit: Atoms, calc: Any, size: float, fmax: float, steps: int, console: Console
) -> tuple[np.ndarray, np.ndarray, int]:
    quiet = Console(quiet=True)
    matrices = np.zeros((2, 6, 6))
    unrelaxed = 0
    with bar(console, "strained cells", 12) as progress:
        for a, direction in enumerate(derivatives.strain_directions()):
            stresses = []
            for sign in (1.0, -1.0):
                strained = unit.copy()
                deformation = np.eye(3) + sign * size * direction
                strained.set_cell(unit.cell.array @ deformation, scale_atoms=True)
                strained.calc = calc
                clamped = np.asarray(strained.get_stress())
                moved, report = relax_and_report(strained, calc, fmax, False, steps, False, quiet)
                unrelaxed += not report.converged
                moved.calc = calc
                stresses.append([clamped, np.asarray(moved.get_stress())])
                progress(2 * a + (1 if sign > 0 else 2), 12)
            matrices[:, a] = (np.array(stresses[0]) - np.array(stresses[1])) / (2 * size)
    clamped, relaxed = 0.5 * (matrices + matrices.swapaxes(1, 2))
    return clamped, relaxed, unrelaxed
