"""Pictures of a staged run, from its log and trajectory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .msd import mean_squared_displacement
from .plots import distances_figure, figure
from .rdf import PairDistances

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Frames that count for pair distances: enough for a smooth curve, few enough to cost little.
_DISTANCE_FRAMES = 200
#: Frames that count for displacements.
_DISPLACEMENT_FRAMES = 1000

Log = dict[str, np.ndarray]


def _stage_starts(axis, log: Log) -> None:
    first = log["replica"] == 0
    names, time = log["stage"][first], log["time_fs"][first] / 1000
    for k in np.flatnonzero(names[1:] != names[:-1]):
        axis.axvline(time[k], color="0.6", linewidth=0.8, linestyle=":")


def energies(log: Log, n_atoms: int) -> Figure:
    """Energies of the first replica, and below the change of the conserved quantity."""
    drawn, (parts, sums) = figure(5.4, 2)
    first = log["replica"] == 0
    time = log["time_fs"][first] / 1000
    potential = log["potential_eV"][first]
    parts.plot(time, potential - potential[0], linewidth=1.0, label="potential - its first value")
    parts.plot(time, log["kinetic_eV"][first], linewidth=1.0, label="kinetic")
    parts.set_ylabel("energy [eV]")
    parts.legend(frameon=False)
    names = log["stage"][first]
    for name in dict.fromkeys(names):
        own = names == name
        conserved = log["conserved_eV"][first][own]
        sums.plot(time[own], (conserved - conserved[0]) * 1000 / n_atoms, linewidth=1.0, label=name)
    sums.set_ylabel("change of the conserved\nquantity [meV/atom]")
    sums.set_xlabel("time [ps]")
    sums.legend(frameon=False, fontsize="small")
    for axis in (parts, sums):
        _stage_starts(axis, log)
    return drawn


def temperature(log: Log) -> Figure:
    """Temperature of every replica."""
    drawn, (axis,) = figure(3.6)
    for replica in np.unique(log["replica"]):
        own = log["replica"] == replica
        axis.plot(log["time_fs"][own] / 1000, log["temperature_K"][own], linewidth=0.9)
    _stage_starts(axis, log)
    axis.set_xlabel("time [ps]")
    axis.set_ylabel("temperature [K]")
    return drawn


def cell(log: Log) -> Figure:
    """Pressure and volume of the first replica."""
    drawn, (top, bottom) = figure(5.0, 2)
    first = log["replica"] == 0
    time = log["time_fs"][first] / 1000
    top.plot(time, log["pressure_GPa"][first], linewidth=0.9)
    top.set_ylabel("pressure [GPa]")
    bottom.plot(time, log["volume_A3"][first], linewidth=0.9)
    bottom.set_ylabel("volume [Å$^3$]")
    bottom.set_xlabel("time [ps]")
    for axis in (top, bottom):
        _stage_starts(axis, log)
    return drawn


def rdf(frames: dict[str, np.ndarray], pbc) -> Figure:
    """Radial distribution functions of a trajectory's frames."""
    distances = PairDistances(frames["species"], frames["edges"][0], pbc)
    chosen = np.unique(np.linspace(0, len(frames["step"]) - 1, _DISTANCE_FRAMES).astype(int))
    for k in chosen:
        distances.add(frames["position"][k].astype(np.float64), frames["edges"][k])
    return distances_figure(distances)


def msd(frames: dict[str, np.ndarray], masses) -> Figure:
    """Mean squared displacements of a trajectory's frames."""
    thin = max(1, -(-len(frames["step"]) // _DISPLACEMENT_FRAMES))
    images, edges = frames["image"][::thin].astype(np.float64), frames["edges"][::thin]
    unwrapped = frames["position"][::thin].astype(np.float64) + images @ edges
    curves = mean_squared_displacement(unwrapped, frames["species"], masses)
    drawn, (axis,) = figure(3.8)
    time = frames["time"][::thin]
    for name, curve in curves.items():
        axis.plot((time[: len(curve)] - time[0]) / 1000, curve, linewidth=1.1, label=name)
    axis.set_xlabel("time [ps]")
    axis.set_ylabel("mean squared displacement [Å$^2$]")
    axis.legend(frameon=False)
    return drawn
