"""The picture of a relaxation."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from mlpot.files import temporary_beside

from .outputs import check_outputs
from .relaxation import RelaxationReport


def picture_of(path: str | os.PathLike[str]) -> Path:
    """The picture that belongs to a file of relaxed structures."""
    return Path(path).with_suffix(".png")


def draw_relaxations(
    reports: Sequence[RelaxationReport], path: Path, fmax: float, overwrite: bool = False
) -> None:
    """Energy and largest force against the step, a line for each relaxation.

    Args:
        reports: with a history.
        path: PNG or SVG, by its ending.
        fmax: the goal, eV/Angstrom, drawn too.
        overwrite: whether an existing file is replaced.

    Raises:
        ValueError: the file exists and ``overwrite`` is False.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    check_outputs([path], overwrite)
    figure = Figure(figsize=(6.0, 5.0), layout="constrained")
    FigureCanvasAgg(figure)
    upper, lower = figure.subplots(2, 1, sharex=True)
    for report in reports:
        energies, forces = report.history.T
        upper.plot(energies - energies[-1], "o-", color="#1f5fa8", markersize=3, linewidth=1.2)
        # A symmetric crystal has forces of exactly zero, which a logarithm cannot show.
        lower.plot(forces.clip(min=1e-3 * fmax), "o-", color="#b03030", markersize=3, linewidth=1.2)
    upper.set_ylabel("energy above the last (eV)")
    done = sum(report.converged for report in reports)
    which = f"{done} of {len(reports)} structures" if len(reports) > 1 else ""
    state = "relaxed" if done == len(reports) else "not relaxed"
    upper.set_title(f"{path.stem}: {which or state}" + (" relaxed" if which else ""))
    lower.axhline(fmax, color="#888888", linestyle="--", linewidth=1, label="fmax")
    lower.set_yscale("log")
    lower.set_ylabel("largest force (eV/Å)")
    lower.set_xlabel("step")
    lower.xaxis.set_major_locator(MaxNLocator(integer=True))
    lower.legend(fontsize=8)
    with temporary_beside(path) as temporary:
        figure.savefig(temporary, dpi=120)
