"""Mode Grueneisen parameters: how frequencies answer to the volume."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float64

if TYPE_CHECKING:
    from phonopy import Phonopy

#: Volumes are changed by this part in each direction.
VOLUME_STEP = 0.01
#: Up to so many bands have their colours named in a picture.
_NAMED_BANDS = 6


@dataclass(frozen=True)
class Grueneisen:
    """gamma = -d ln(frequency) / d ln(volume) of every mode on a mesh.

    Args:
        q_points: (n_q, 3), in reciprocal lattice vectors of the primitive cell.
        weights: (n_q,), of each point in the zone.
        frequencies: (n_q, n_bands), THz.
        parameters: (n_q, n_bands); those of acoustic modes at Gamma are not defined and are NaN.
    """

    q_points: Float64[np.ndarray, "n_q 3"]
    weights: Float64[np.ndarray, " n_q"]
    frequencies: Float64[np.ndarray, "n_q n_bands"]
    parameters: Float64[np.ndarray, "n_q n_bands"]

    @property
    def mean(self) -> float:
        """Mean over the zone and all bands: the thermodynamic one at high temperature."""
        valid = np.isfinite(self.parameters)
        weights = np.broadcast_to(self.weights[:, None], self.parameters.shape)[valid]
        return float(np.average(self.parameters[valid], weights=weights))

    def write_csv(self, file: IO[Any]) -> None:
        """One line for each mode."""
        writer = csv.writer(file)
        writer.writerow(["q_a", "q_b", "q_c", "weight", "band", "frequency_THz", "grueneisen"])
        for q, weight, row, values in zip(
            self.q_points, self.weights, self.frequencies, self.parameters, strict=True
        ):
            for band, (frequency, value) in enumerate(zip(row, values, strict=True)):
                writer.writerow([*q.tolist(), weight, band, frequency, value])


def grueneisen_parameters(
    phonopy: Phonopy, at_volume: Callable[[float], Phonopy], mesh: Sequence[int]
) -> Grueneisen:
    """Grueneisen parameters by first-order perturbation from two more volumes.

    Args:
        phonopy: at the volume in question, with force constants.
        at_volume: the same crystal at a factor times this volume.
        mesh: (3,) q points.
    """
    from phonopy import PhonopyGruneisen

    larger, smaller = at_volume(1 + VOLUME_STEP), at_volume(1 - VOLUME_STEP)
    gruneisen: Any = PhonopyGruneisen(phonopy, larger, smaller)
    with np.errstate(divide="ignore", invalid="ignore"):  # acoustic modes at Gamma: see below
        gruneisen.set_mesh(list(mesh), is_gamma_center=True)
    q_points, weights, frequencies, _, parameters = gruneisen.get_mesh()
    frequencies, parameters = np.array(frequencies), np.array(parameters)
    # At Gamma the acoustic frequencies are zero, whatever the volume.
    gamma = np.linalg.norm(q_points - np.rint(q_points), axis=1) < 1e-9
    parameters[gamma, :3] = np.nan
    return Grueneisen(np.array(q_points, float), np.array(weights, float), frequencies, parameters)


def draw_grueneisen(found: Grueneisen, path: Path, title: str) -> None:
    """The parameters of all modes against their frequencies."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.0, 4.0), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    n_bands = found.parameters.shape[1]
    for band in range(n_bands):
        name = f"band {band + 1}" if n_bands <= _NAMED_BANDS else None
        x, y = found.frequencies[:, band], found.parameters[:, band]
        axes.plot(x, y, ".", markersize=3, label=name)
    axes.axhline(found.mean, color="#888888", linestyle="--", linewidth=1, label="mean")
    axes.legend(fontsize=8, markerscale=2)
    axes.set_xlabel("frequency (THz)")
    axes.set_ylabel("Grüneisen parameter")
    axes.set_title(f"{title}: mean {found.mean:.2f}")
    figure.savefig(path, dpi=150)
