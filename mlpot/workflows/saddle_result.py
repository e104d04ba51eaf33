"""A saddle point, its files and picture."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from ase import Atoms
from ase.calculators.singlepoint import SinglePointCalculator
from jaxtyping import Float64

from .outputs import check_outputs, named_paths, write_numbers
from .saddle_search import Search
from .structures import write_frames

#: Curvatures above minus this (eV/Angstrom^2) beside the mode are not taken for negative.
FLAT = 1e-3
_AMPLITUDE, _FRAMES = 0.5, 20


@dataclass(frozen=True)
class Saddle:
    """Result of `saddle`.

    Args:
        atoms: the saddle point, with energy and forces.
        mode: (n_atoms, 3), normalised, the way over the saddle.
        curvature: along it, eV/Angstrom^2; negative at a saddle point.
        second_curvature: the lowest one beside it; positive at a saddle point of first order. None
            where the search was stopped before it was known.
        converged: whether fmax was reached with a negative curvature.
        steps: steps taken.
        fmax: largest force on an atom that may move, eV/Angstrom.
        history: (steps + 1, 3) energy (eV), curvature, fmax at each step.
        sides: the two minima below the saddle, the one nearer to the start first; None where they
            were not asked for.
        evaluations: energies with forces of the search.
        products: products of the Hessian with vectors.
        method: "hessian" or "displacements".
        unrelaxed: how many of the two minima did not reach fmax, so that barriers are too low.
    """

    atoms: Atoms
    mode: Float64[np.ndarray, "n_atoms 3"]
    curvature: float
    second_curvature: float | None
    converged: bool
    steps: int
    fmax: float
    history: Float64[np.ndarray, "_ 3"]
    sides: list[Atoms] | None
    evaluations: int
    products: int
    method: str
    unrelaxed: int = 0

    @classmethod
    def make(
        cls,
        search: Search,
        history: np.ndarray,
        second: float | None,
        sides: list[Atoms] | None,
        converged: bool,
        method: str,
    ) -> Saddle:
        """From a search that has ended."""
        point, surface = search.point, search.surface
        atoms = surface.atoms.copy()
        atoms.calc = SinglePointCalculator(
            atoms,
            energy=surface.atoms.get_potential_energy(),
            forces=surface.atoms.get_forces(apply_constraint=False),
        )
        return cls(
            atoms, point.mode.reshape(-1, 3), point.curvature, second, converged,
            len(history) - 1, point.fmax, history, sides, surface.evaluations, surface.products,
            method,
        )  # fmt: skip

    @property
    def energy(self) -> float:
        """Of the saddle point, eV."""
        return float(self.atoms.get_potential_energy())

    @property
    def first_order(self) -> bool:
        """Whether the energy falls along one mode only."""
        second = self.second_curvature
        return self.curvature < 0 and second is not None and second > -FLAT

    @property
    def barriers(self) -> tuple[float, float] | None:
        """Energy above the minimum on the side of the start, and above the other one, eV."""
        if self.sides is None:
            return None
        first, second = (self.energy - float(end.get_potential_energy()) for end in self.sides)
        return first, second

    def __str__(self) -> str:
        """One line for people."""
        state = "saddle point" if self.converged else "NO saddle point"
        second, order = self.second_curvature, ""
        if self.converged and second is not None and not self.first_order:
            order = " of HIGHER ORDER"
        barriers = ""
        if self.barriers is not None:
            barriers = f"; barriers {self.barriers[0]:.4f} eV and {self.barriers[1]:.4f} eV"
            barriers += f" ({self.unrelaxed} of the minima NOT RELAXED)" if self.unrelaxed else ""
        return (
            f"{state}{order} after {self.steps} steps (fmax {self.fmax:.1e} eV/Å, curvatures "
            f"{self.curvature:+.3f} and {'?' if second is None else f'{second:+.3f}'} eV/Å²)"
            f"{barriers}; "
            f"{self.evaluations} energies, {self.products} products"
        )

    def animation(self) -> list[Atoms]:
        """The mode as a swing about the saddle point."""
        frames = []
        for phase in np.arange(_FRAMES) / _FRAMES:
            frame = self.atoms.copy()
            frame.positions += _AMPLITUDE * np.sin(2 * np.pi * phase) * self.mode
            frames.append(frame)
        return frames

    def write(
        self,
        folder: str | os.PathLike[str],
        name: str = "saddle",
        plot: bool = True,
        overwrite: bool = False,
    ) -> dict[str, Path]:
        """Write structures (saddle, mode, minima) as extended XYZ, numbers as JSON, a picture.

        Args:
            folder: made where it does not exist.
            name: what file names begin with.
            plot: whether the picture is drawn.
            overwrite: whether existing files are replaced.

        Returns:
            The paths by "saddle", "mode", "minima", "json", "png", "svg".

        Raises:
            ValueError: a file exists and ``overwrite`` is False.
        """
        paths = output_paths(folder, name, plot, self.sides is not None)
        check_outputs(paths.values(), overwrite)
        Path(folder).mkdir(parents=True, exist_ok=True)
        structures = {"saddle": [self.atoms], "mode": self.animation()}
        if self.sides is not None:
            structures["minima"] = self.sides
        for kind, frames in structures.items():
            write_frames(paths[kind], frames)
        data = {
            "converged": self.converged,
            "first_order": self.first_order,
            "energy_eV": self.energy,
            "barriers_eV": self.barriers,
            "unrelaxed_minima": self.unrelaxed,
            "fmax_eV_per_angstrom": self.fmax,
            "curvature_eV_per_angstrom2": self.curvature,
            "second_curvature_eV_per_angstrom2": self.second_curvature,
            "mode": self.mode.tolist(),
            "steps": self.steps,
            "evaluations": self.evaluations,
            "products": self.products,
            "method": self.method,
        }
        write_numbers(paths, data, lambda path: _draw(self, path, name))
        return paths


def output_paths(
    folder: str | os.PathLike[str], name: str, plot: bool, minima: bool
) -> dict[str, Path]:
    """Names of all files of a result."""
    endings = {"saddle": "saddle.extxyz", "mode": "mode.extxyz", "json": "saddle.json"}
    if minima:
        endings["minima"] = "minima.extxyz"
    return named_paths(folder, name, endings, "saddle" if plot else None)


def _draw(result: Saddle, path: Path, title: str) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.0, 5.0), layout="constrained")
    FigureCanvasAgg(figure)
    upper, lower = figure.subplots(2, 1, sharex=True)
    energies, curvatures, _ = result.history.T
    steps = range(len(energies))
    upper.plot(steps, energies - energies[0], "o-", color="#1f5fa8", markersize=4)
    upper.set_ylabel("energy above the start (eV)")
    what = f"{title}: {result.energy - energies[0]:+.3f} eV above the start"
    if result.barriers is not None:
        what = f"{title}: barriers {result.barriers[0]:.3f} and {result.barriers[1]:.3f} eV"
        what += ", minima not relaxed" if result.unrelaxed else ""
    upper.set_title(what if result.converged else f"{what}, not converged")
    lower.plot(steps, curvatures, "o-", color="#b03030", markersize=4)
    lower.axhline(0.0, color="#888888", linewidth=0.8, linestyle="--")
    lower.set_ylabel("curvature of the mode (eV/Å$^2$)")
    lower.set_xlabel("step")
    figure.savefig(path, dpi=150)
