"""Pictures of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .rdf import PairDistances
    from .record import Record


def figure(height: float, n_rows: int = 1) -> tuple[Figure, list[Axes]]:
    """An empty picture with axes one below the other."""
    # Not through pyplot, which keeps figures and chooses a window system.
    from matplotlib.figure import Figure

    made = Figure(figsize=(6.4, height), layout="constrained")
    axes = made.subplots(n_rows, 1, squeeze=False, sharex=n_rows > 1)
    for axis in axes[:, 0]:
        axis.grid(alpha=0.3)
    return made, list(axes[:, 0])


def energies(record: Record) -> Figure:
    """Potential and kinetic energy, and below the change of their sum, by time."""
    drawn, (parts, sums) = figure(5.4, 2)
    time = record.column("time") / 1000
    for name, label in (("potential", "potential"), ("kinetic", "kinetic")):
        values = record.column(name)
        shown = values - values[0] if label == "potential" else values
        suffix = " - its first value" if label == "potential" else ""
        parts.plot(time, shown, linewidth=1.0, label=label + suffix)
    parts.set_ylabel("energy [eV]")
    parts.legend(frameon=False)
    total = record.column("total")
    per_atom = (total - total[0]) * 1000 / record.n_atoms
    sums.plot(time, per_atom, color="black", linewidth=1.0)
    sums.set_ylabel("change of total\n[meV/atom]")
    sums.set_xlabel("time [ps]")
    if record.drift is not None:
        fit = np.polynomial.Polynomial.fit(time, per_atom, 1)
        label = f"drift {record.drift:.3g} meV/atom/ps"
        sums.plot(time, fit(time), color="tab:red", linewidth=1.0, label=label)
        sums.legend(frameon=False)
    return drawn


def temperature(record: Record) -> Figure:
    """Temperature by time, with its mean and, for Langevin, the bath's."""
    drawn, (axis,) = figure(3.6)
    values = record.column("temperature")
    axis.plot(record.column("time") / 1000, values, color="tab:orange", linewidth=0.9)
    axis.axhline(values.mean(), color="black", linewidth=1.0, label=f"mean {values.mean():.1f} K")
    if record.settings.ensemble == "langevin":
        axis.axhline(
            record.settings.temperature,
            color="tab:blue",
            linestyle="--",
            linewidth=1.0,
            label=f"bath {record.settings.temperature:g} K",
        )
    axis.set_xlabel("time [ps]")
    axis.set_ylabel("temperature [K]")
    axis.legend(frameon=False)
    return drawn


def rdf(record: Record) -> Figure:
    """Radial distribution function, or distances in a molecule, for each pair of elements."""
    return distances_figure(record.distances)


def distances_figure(distances: PairDistances) -> Figure:
    """The curves of counted pair distances."""
    drawn, (axis,) = figure(3.8)
    for name, curve in distances.curves().items():
        axis.plot(distances.centres, curve, linewidth=1.1, label=name)
    axis.set_xlabel("distance [Å]")
    axis.set_ylabel("g(r)" if distances.periodic else "neighbours per Å")
    axis.legend(frameon=False, ncols=2, fontsize="small")
    return drawn
