"""Group velocities of all modes on a mesh: slopes of frequencies."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

import numpy as np
from jaxtyping import Float64

if TYPE_CHECKING:
    from phonopy import Phonopy
    from phonopy.phonon.mesh import Mesh


@dataclass(frozen=True)
class GroupVelocities:
    """d omega / d q of every mode on a mesh.

    Zero where the mode is imaginary. 1 THz Angstrom is 100 m/s.

    Args:
        q_points: (n_q, 3), in reciprocal lattice vectors of the primitive cell.
        weights: (n_q,), of each point in the zone.
        frequencies: (n_q, n_bands), THz.
        velocities: (n_q, n_bands, 3), Cartesian, THz Angstrom.
    """

    q_points: Float64[np.ndarray, "n_q 3"]
    weights: Float64[np.ndarray, " n_q"]
    frequencies: Float64[np.ndarray, "n_q n_bands"]
    velocities: Float64[np.ndarray, "n_q n_bands 3"]

    def write_csv(self, file: IO[Any]) -> None:
        """One line for each mode."""
        writer = csv.writer(file)
        units = [f"v_{axis}_THz_A" for axis in "xyz"]
        writer.writerow(["q_a", "q_b", "q_c", "weight", "band", "frequency_THz", *units])
        for q, weight, row, slopes in zip(
            self.q_points, self.weights, self.frequencies, self.velocities, strict=True
        ):
            for band, (frequency, slope) in enumerate(zip(row, slopes, strict=True)):
                writer.writerow([*q.tolist(), weight, band, frequency, *slope.tolist()])


def group_velocities(phonopy: Phonopy) -> GroupVelocities:
    """Those on the mesh that was computed, non-analytic term included."""
    mesh = cast("Mesh", phonopy.mesh)
    found: Any = phonopy.run_qpoints(mesh.qpoints, with_group_velocities=True)
    return GroupVelocities(
        np.array(mesh.qpoints, float),
        np.array(mesh.weights, float),
        np.array(found.frequencies),
        np.array(found.group_velocities),
    )


def draw_group_velocities(found: GroupVelocities, path: Path, title: str) -> None:
    """Their lengths against frequencies."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.0, 4.0), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    speeds = np.linalg.norm(found.velocities, axis=2) / 10  # THz Angstrom to km/s
    axes.plot(found.frequencies.ravel(), speeds.ravel(), ".", markersize=3, color="#1f5fa8")
    axes.set_xlabel("frequency (THz)")
    axes.set_ylabel("group velocity (km/s)")
    axes.set_title(f"{title}: group velocities")
    figure.savefig(path, dpi=150)
