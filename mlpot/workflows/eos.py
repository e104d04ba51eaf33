"""Equation of state: energy against volume."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from ase import Atoms
from jaxtyping import Float64
from rich.console import Console

from mlpot.units import GPA

from .checks import check_positive
from .outputs import check_outputs, named_paths, write_numbers
from .precision import check_elements
from .progress import bar
from .relaxation import relax_and_report, told_unrelaxed
from .vacuum import tell_vacuum


@dataclass(frozen=True)
class EquationOfState:
    """Birch-Murnaghan fit of third order (Birch, Phys. Rev. 71, 809 (1947)).

    Args:
        volumes: (n,), Angstrom^3, of the whole cell.
        energies: (n,), eV.
        volume: at the minimum, Angstrom^3.
        energy: at the minimum, eV.
        bulk_modulus: GPa.
        derivative: of the bulk modulus with respect to pressure.
        residual: root mean square of the fit, eV.
        formula: of the cell.
        n_atoms: in the cell.
        unrelaxed: volumes at which the atoms did not reach fmax.
    """

    volumes: Float64[np.ndarray, " n"]
    energies: Float64[np.ndarray, " n"]
    volume: float
    energy: float
    bulk_modulus: float
    derivative: float
    residual: float
    formula: str
    n_atoms: int
    unrelaxed: int = 0

    @property
    def near_edge(self) -> bool:
        """Whether fewer than two volumes are smaller than that of the minimum, or larger."""
        volumes = np.sort(self.volumes)
        return not volumes[1] <= self.volume <= volumes[-2]

    def curve(self, volumes) -> np.ndarray:
        """Energies of the fit, eV."""
        b0 = self.bulk_modulus * GPA
        return birch_murnaghan(np.asarray(volumes), self.energy, self.volume, b0, self.derivative)

    def __str__(self) -> str:
        """One line for people."""
        return (
            f"{self.formula}: V0 = {self.volume:.4f} Å^3 ({self.volume / self.n_atoms:.4f} per "
            f"atom), E0 = {self.energy:.6f} eV, B0 = {self.bulk_modulus:.3f} GPa, "
            f"B0' = {self.derivative:.3f}; the fit is within {self.residual * 1e3:.3f} meV"
        )

    def write(
        self,
        folder: str | os.PathLike[str],
        name: str | None = None,
        plot: bool = True,
        overwrite: bool = False,
    ) -> dict[str, Path]:
        """Write NAME-eos.json and a picture of the curve.

        Args:
            folder: made where it does not exist.
            name: what file names begin with; the formula by default.
            plot: whether the picture is drawn.
            overwrite: whether existing files are replaced.

        Returns:
            The paths by "json", "png", "svg".

        Raises:
            ValueError: a file exists and ``overwrite`` is False.
        """
        name = name or self.formula
        paths = output_paths(folder, name, plot)
        check_outputs(paths.values(), overwrite)
        Path(folder).mkdir(parents=True, exist_ok=True)
        data = {
            "volumes_angstrom3": self.volumes.tolist(),
            "energies_eV": self.energies.tolist(),
            "V0_angstrom3": self.volume,
            "E0_eV": self.energy,
            "B0_GPa": self.bulk_modulus,
            "B0_prime": self.derivative,
            "residual_eV": self.residual,
            "n_atoms": self.n_atoms,
            "minimum_near_edge": self.near_edge,
            "unrelaxed": self.unrelaxed,
        }
        write_numbers(paths, data, lambda path: _draw(self, path, name))
        return paths


def eos(
    atoms: Atoms,
    calc: Any,
    *,
    span: float = 0.06,
    points: int = 9,
    relax: bool = True,
    fmax: float = 1e-3,
    steps: int = 500,
    out: str | os.PathLike[str] | None = None,
    name: str | None = None,
    plot: bool = True,
    overwrite: bool = False,
    console: Console | None = None,
) -> EquationOfState:
    """Energy against volume under uniform strain, with a Birch-Murnaghan fit.

    Args:
        atoms: unit cell, periodic in three directions; not changed.
        calc: ASE calculator.
        span: volumes go from 1 - span to 1 + span times that of the cell.
        points: number of volumes, at least 5.
        relax: relax the atoms at each volume.
        fmax: how far, eV/Angstrom.
        steps: of each relaxation at most.
        out: folder for the files; nothing is written by default.
        name: what file names begin with; the formula by default.
        plot: whether the picture is among the files.
        overwrite: whether existing files are replaced.
        console: where progress is shown; standard output by default.

    Returns:
        The fit and its points.

    Raises:
        ValueError: bad numbers, a structure that is no crystal, unknown elements, no minimum
            within the volumes, or files that exist already.
    """
    if not 0 < span < 0.5:
        raise ValueError(f"span is {span}; give a part of the volume such as 0.06")
    if points < 5:
        raise ValueError(f"points is {points}; the fit has four parameters: give at least 5")
    check_positive("eV/Angstrom", fmax=fmax)
    check_elements(atoms, calc)
    if not atoms.pbc.all():
        raise ValueError(
            f"the structure is periodic along {atoms.pbc.tolist()} only; an equation of state "
            "needs a crystal, periodic in three directions"
        )
    name = name or atoms.get_chemical_formula()
    if out is not None:
        check_outputs(output_paths(out, name, plot).values(), overwrite)
    console = Console() if console is None else console
    tell_vacuum(atoms, calc, "volumes and bulk moduli", console)
    quiet = Console(quiet=True)
    factors = np.linspace(1 - span, 1 + span, points)
    volumes, energies, unrelaxed = [], [], 0
    with bar(console, "volumes", points) as progress:
        for done, factor in enumerate(factors, start=1):
            cell = atoms.copy()
            cell.set_cell(atoms.cell.array * factor ** (1 / 3), scale_atoms=True)
            cell.calc = calc
            if relax:
                cell, report = relax_and_report(cell, calc, fmax, False, steps, False, quiet)
                unrelaxed += not report.converged
            volumes.append(cell.cell.volume)
            energies.append(float(cell.get_potential_energy()))
            progress(done, points)
    found = fit(np.array(volumes), np.array(energies), atoms)
    result = replace(found, unrelaxed=unrelaxed)
    console.print(str(result), highlight=False)
    if unrelaxed:
        told = told_unrelaxed(unrelaxed, f"of {points} volumes")
        console.print(f"[yellow]NOT CONVERGED: {told}.[/yellow]", highlight=False)
    if result.near_edge:
        console.print(f"[yellow]{_near_edge(result, span)}[/yellow]", highlight=False)
    if out is not None:
        result.write(out, name, plot, overwrite)
    return result


def _near_edge(result: EquationOfState, span: float) -> str:
    side = "smallest" if result.volume < result.volumes.mean() else "largest"
    return (
        f"The minimum lies near the {side} of the volumes ({result.volumes.min():.2f} to "
        f"{result.volumes.max():.2f} Å^3), with one point beyond it: relax "
        f"the cell first (mlpot relax --cell), or give a wider span (--span) than {span:g}."
    )


def birch_murnaghan(v, e0: float, v0: float, b0: float, derivative: float):
    """Birch-Murnaghan energy of third order; b0 in units of e0 / v0."""
    x = (v0 / v) ** (2 / 3) - 1
    return e0 + 9 / 16 * v0 * b0 * (x**3 * derivative + x**2 * (2 - 4 * x))


def fit(volumes: np.ndarray, energies: np.ndarray, atoms: Atoms) -> EquationOfState:
    """Fit volumes (Angstrom^3) and energies (eV) of a cell.

    Raises:
        ValueError: there is no minimum within the volumes.
    """
    # The energy is a cubic polynomial in v^(-2/3): a linear fit, with nothing to start from.
    x = volumes ** (-2 / 3)
    middle, width = x.mean(), np.ptp(x)
    cubic = np.polynomial.Polynomial(
        np.polynomial.polynomial.polyfit((x - middle) / width, energies, 3)
    )
    roots = cubic.deriv().roots()
    minima = [
        float(r.real) for r in roots if abs(r.imag) < 1e-9 and cubic.deriv(2)(r.real).real > 0
    ]
    places = [middle + width * r for r in minima]
    inside = [p for p in places if x.min() <= p <= x.max()]
    if not inside:
        raise ValueError(
            f"the energy has no minimum between {volumes.min():.2f} and {volumes.max():.2f} "
            "Å^3: relax the cell first (mlpot relax --cell), or give a wider span (--span)"
        )
    place = inside[0]
    t = (place - middle) / width
    d2, d3 = cubic.deriv(2)(t) / width**2, cubic.deriv(3)(t) / width**3
    v0 = place ** (-3 / 2)
    # With x = v^(-2/3): dx/dv = -2/3 v^(-5/3); E' = 0 at the minimum.
    slope, curvature = -2 / 3 * v0 ** (-5 / 3), 10 / 9 * v0 ** (-8 / 3)
    e2 = d2 * slope**2
    e3 = d3 * slope**3 + 3 * d2 * slope * curvature
    b0 = v0 * e2
    derivative = -1 - v0 * e3 / e2
    e0 = float(cubic(t))
    residual = energies - cubic((x - middle) / width)
    return EquationOfState(
        volumes,
        energies,
        float(v0),
        e0,
        float(b0 / GPA),
        float(derivative),
        float(np.sqrt(np.mean(residual**2))),
        atoms.get_chemical_formula(),
        len(atoms),
    )


def output_paths(folder: str | os.PathLike[str], name: str, plot: bool) -> dict[str, Path]:
    """Names of all files of a result."""
    return named_paths(folder, name, {"json": "eos.json"}, "eos" if plot else None)


def _draw(result: EquationOfState, path: Path, title: str) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.0, 4.0), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    grid = np.linspace(result.volumes.min(), result.volumes.max(), 200)
    per_atom = 1 / result.n_atoms
    lowest = result.energy
    axes.plot(grid * per_atom, (result.curve(grid) - lowest) * per_atom * 1e3, color="#1f5fa8")
    axes.plot(
        result.volumes * per_atom, (result.energies - lowest) * per_atom * 1e3, "o", color="#b03030"
    )
    axes.set_xlabel("volume (Å$^3$/atom)")
    axes.set_ylabel("energy above the minimum (meV/atom)")
    axes.set_title(f"{title}: B$_0$ = {result.bulk_modulus:.1f} GPa", fontsize=11)
    figure.savefig(path, dpi=150)
