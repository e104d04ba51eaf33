"""A minimum-energy path, its files and picture."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from ase import Atoms
from jaxtyping import Float64

from .outputs import check_outputs, named_paths, write_numbers
from .structures import write_frames


@dataclass(frozen=True)
class Band:
    """Result of `neb`.

    Args:
        images: from the first to the last structure, with energies and forces.
        energies: (n_images,), eV.
        distances: (n_images,), along the path, Angstrom.
        converged: whether fmax was reached.
        steps: steps taken.
        fmax: largest force on the band, eV/Angstrom.
        climbing: whether the highest image climbed to the saddle point.
    """

    images: list[Atoms]
    energies: Float64[np.ndarray, " n_images"]
    distances: Float64[np.ndarray, " n_images"]
    converged: bool
    steps: int
    fmax: float
    climbing: bool

    @property
    def barrier(self) -> float:
        """Highest energy above that of the first image, eV."""
        return float(self.energies.max() - self.energies[0])

    @property
    def reverse_barrier(self) -> float:
        """Highest energy above that of the last image, eV."""
        return float(self.energies.max() - self.energies[-1])

    def __str__(self) -> str:
        """One line for people."""
        state = "converged" if self.converged else "NOT converged"
        return (
            f"{state} after {self.steps} steps (fmax {self.fmax:.1e} eV/Å): barrier "
            f"{self.barrier:.4f} eV forwards, {self.reverse_barrier:.4f} eV backwards"
        )

    def write(
        self,
        folder: str | os.PathLike[str],
        name: str = "neb",
        plot: bool = True,
        overwrite: bool = False,
    ) -> dict[str, Path]:
        """Write the path as extended XYZ, its energies as JSON and a picture.

        Args:
            folder: made where it does not exist.
            name: what file names begin with.
            plot: whether the picture is drawn.
            overwrite: whether existing files are replaced.

        Returns:
            The paths by "path", "json", "png", "svg".

        Raises:
            ValueError: a file exists and ``overwrite`` is False.
        """
        paths = output_paths(folder, name, plot)
        check_outputs(paths.values(), overwrite)
        Path(folder).mkdir(parents=True, exist_ok=True)
        write_frames(paths["path"], self.images)
        data = {
            "energies_eV": self.energies.tolist(),
            "distances_angstrom": self.distances.tolist(),
            "barrier_eV": self.barrier,
            "reverse_barrier_eV": self.reverse_barrier,
            "converged": self.converged,
            "fmax_eV_per_angstrom": self.fmax,
            "climbing": self.climbing,
        }
        write_numbers(paths, data, lambda path: _draw(self, path, name))
        return paths


def output_paths(folder: str | os.PathLike[str], name: str, plot: bool) -> dict[str, Path]:
    """Names of all files of a result."""
    return named_paths(
        folder, name, {"path": "path.extxyz", "json": "neb.json"}, "neb" if plot else None
    )


def _draw(band: Band, path: Path, title: str) -> None:
    from ase.utils.forcecurve import fit_images
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.0, 4.0), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    curve: Any = fit_images(band.images)
    axes.plot(curve.fit_path, curve.fit_energies, color="#1f5fa8")
    axes.plot(curve.path, curve.energies, "o", color="#b03030")
    axes.set_xlabel("path (Å)")
    axes.set_ylabel("energy above the first image (eV)")
    what = f"{title}: barrier {band.barrier:.3f} eV"
    axes.set_title(what if band.converged else f"{what}, not converged")
    figure.savefig(path, dpi=150)
