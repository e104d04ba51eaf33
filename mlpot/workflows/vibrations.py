"""Vibrations of a molecule: frequencies, zero-point energy, thermochemistry."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from ase import Atoms
from rich.console import Console

from mlpot.units import SQRT_EIGENVALUE_TO_THZ

from .checks import check_count, check_positive
from .outputs import check_outputs
from .precision import check_elements, choose_method, in_float64
from .progress import bar
from .relaxation import relax_and_report
from .vibration_result import Geometry, Vibrations, output_paths

#: Moments of inertia smaller than this part of the largest make a molecule linear.
_LINEAR = 1e-6


def vibrations(
    atoms: Atoms,
    calc: Any,
    relax: bool = True,
    *,
    method: str | None = None,
    distance: float = 0.005,
    temperature: float = 298.15,
    pressure: float = 101325.0,
    symmetry_number: int = 1,
    spin: float = 0.0,
    fmax: float = 1e-4,
    steps: int = 500,
    out: str | os.PathLike[str] | None = None,
    name: str | None = None,
    plot: bool = True,
    overwrite: bool = False,
    console: Console | None = None,
) -> Vibrations:
    """Harmonic vibrations of a molecule and the thermochemistry of its ideal gas.

    The Hessian is exact for potentials of mlpot ("hessian", in float64); for other calculators it
    comes from displacements ("displacements", plus and minus). Rigid translations and rotations
    are projected out of it; how far from zero they were is in the result.

    Args:
        atoms: a molecule, periodic in no direction; not changed, constraints are ignored.
        calc: ASE calculator.
        relax: relax the atoms first. At a point that is no minimum the modes mean little.
        method: "hessian" (needs potentials of mlpot, the default for them) or "displacements".
        distance: of displacements, Angstrom.
        temperature: of the thermochemistry, K.
        pressure: of the ideal gas, Pa.
        symmetry_number: rotations that map the molecule onto itself.
        spin: total electronic spin, 0 for a singlet, 0.5 for a doublet.
        fmax: how far atoms are relaxed, eV/Angstrom.
        steps: of the relaxation at most.
        out: folder for the files; nothing is written by default.
        name: what file names begin with; the formula by default.
        plot: whether the picture is among the files.
        overwrite: whether existing files are replaced.
        console: where progress is shown; standard output by default.

    Returns:
        The result.

    Raises:
        ValueError: a periodic structure, bad numbers, unknown elements, a relaxation that did not
            end, or files that exist already.
    """
    method = choose_method(method, calc, "hessian", "displacements")
    _check_numbers(distance, temperature, pressure, symmetry_number, spin)
    check_elements(atoms, calc)
    if atoms.pbc.any():
        raise ValueError(
            f"the structure is periodic (pbc={atoms.pbc.tolist()}); vibrations are those of a "
            "molecule: use phonons for a crystal, or set pbc to False"
        )
    name = name or atoms.get_chemical_formula()
    if out is not None:
        check_outputs(output_paths(out, name, plot).values(), overwrite)
    console = Console() if console is None else console
    calc = in_float64(calc)
    molecule = atoms.copy()
    molecule.set_constraint()
    if relax and len(molecule) > 1:
        molecule, report = relax_and_report(molecule, calc, fmax, False, steps, False, console)
        if not report.converged:
            raise ValueError(f"{report}; give more steps than {steps}, or a better structure")
        console.print(f"{report}.", highlight=False)
    molecule.calc = calc
    energy = float(molecule.get_potential_energy())
    largest = float(np.linalg.norm(molecule.get_forces(), axis=1).max())
    if method == "hessian":
        with bar(console, "second derivatives", 3 * len(molecule)) as progress:
            hessian = calc.get_hessian(molecule, progress=progress)
    else:
        hessian = _displaced(molecule, calc, distance, console)
    molecule.calc = None
    frequencies, modes, rigid = analyse(molecule, 0.5 * (hessian + hessian.T))
    result = Vibrations(
        molecule, energy, largest, hessian, frequencies, modes, rigid,
        geometry(molecule), temperature, pressure, symmetry_number, spin,
    )  # fmt: skip
    console.print(result.table(), highlight=False)
    if out is not None:
        result.write(out, name, plot, overwrite)
    return result


def geometry(atoms: Atoms) -> Geometry:
    """The shape of a molecule, from its moments of inertia."""
    if len(atoms) == 1:
        return "monatomic"
    moments = np.sort(np.asarray(atoms.get_moments_of_inertia()))
    return "linear" if moments[0] < _LINEAR * moments[-1] else "nonlinear"


def rigid_motions(atoms: Atoms) -> np.ndarray:
    """Orthonormal mass-weighted translations and rotations, (n_rigid, 3 n_atoms)."""
    weights = np.sqrt(atoms.get_masses())[:, None]
    arms = atoms.positions - atoms.get_center_of_mass()
    motions = [np.broadcast_to(axis, arms.shape) for axis in np.eye(3)]
    motions += [np.cross(axis, arms) for axis in np.eye(3)]
    stacked = np.stack([(weights * motion).ravel() for motion in motions])
    _, sizes, basis = np.linalg.svd(stacked, full_matrices=False)
    n_rigid = {"monatomic": 3, "linear": 5, "nonlinear": 6}[geometry(atoms)]
    return basis[np.argsort(-sizes)[:n_rigid]]


def analyse(atoms: Atoms, hessian: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Frequencies and modes of a molecule.

    Args:
        atoms: positions and masses.
        hessian: (3 n_atoms, 3 n_atoms), eV/Angstrom^2, symmetric.

    Returns:
        (n_modes,) frequencies in THz, ascending, negative where imaginary; (n_modes, n_atoms, 3)
        displacements in Angstrom sqrt(amu) / sqrt(amu), normalised with the masses; (n_rigid,)
        frequencies of the rigid motions before they were projected out, THz.
    """
    weights = np.repeat(atoms.get_masses() ** -0.5, 3)
    weighted = hessian * weights[:, None] * weights
    rigid = rigid_motions(atoms)
    curvatures = np.linalg.eigvalsh(rigid @ weighted @ rigid.T)
    projector = np.eye(len(weighted)) - rigid.T @ rigid
    # The space without rigid motions, so that no eigenvalue has to be recognised by its size.
    values, vectors = np.linalg.eigh(projector)
    inner = vectors[:, values > 0.5]
    values, vectors = np.linalg.eigh(inner.T @ weighted @ inner)
    modes = ((inner @ vectors).T * weights).reshape(len(values), len(atoms), 3)
    return to_thz(values), modes, to_thz(curvatures)


def to_thz(eigenvalues: np.ndarray) -> np.ndarray:
    """Frequencies (THz) of eigenvalues (eV/Angstrom^2/amu); negative where imaginary."""
    return np.sign(eigenvalues) * np.sqrt(np.abs(eigenvalues)) * SQRT_EIGENVALUE_TO_THZ


def _displaced(molecule: Atoms, calc: Any, distance: float, console: Console) -> np.ndarray:
    size = 3 * len(molecule)
    hessian = np.empty((size, size))
    with bar(console, "displacements", 2 * size) as progress:
        for row in range(size):
            forces = []
            for sign in (1.0, -1.0):
                moved = molecule.copy()
                moved.positions.reshape(-1)[row] += sign * distance
                moved.calc = calc
                forces.append(moved.get_forces().ravel())
                progress(2 * row + len(forces), 2 * size)
            hessian[row] = -(forces[0] - forces[1]) / (2 * distance)
    return hessian


def _check_numbers(
    distance: float, temperature: float, pressure: float, symmetry_number: int, spin: float
) -> None:
    if not 0 < distance < 0.2:
        raise ValueError(f"distance is {distance} Angstrom: give a small one, such as 0.005")
    check_positive("K", temperature=temperature)
    check_positive("Pa", pressure=pressure)
    check_count("symmetry_number", symmetry_number)
    if not np.isfinite(spin) or spin < 0 or 2 * spin != int(2 * spin):
        raise ValueError(f"spin is {spin}; it must be 0, 0.5, 1, ...")
