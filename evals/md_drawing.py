"""Plots of evals/md.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure


def draw(results: dict[str, Any], folder: Path) -> list[Path]:
    """Draw what is there; returns the files."""
    device = results["about"]["device"]
    made = []

    def keep(figure: Figure, name: str) -> None:
        path = folder / f"md-{device}-{name}.png"
        figure.savefig(path, dpi=130)
        made.append(path)

    rows = _good(results.get("scaling"))
    if rows:
        figure = Figure(figsize=(6.4, 3.8), layout="constrained")
        axis = figure.subplots()
        sizes = sorted(int(n) for n in rows)
        axis.loglog(sizes, [rows[str(n)]["us_per_atom"] for n in sizes], "o-")
        axis.set(xlabel="atoms", ylabel="µs a step and atom", title=f"Cost by size ({device})")
        axis.grid(alpha=0.3, which="both")
        keep(figure, "scaling")
    rows = _good(results.get("speed"))
    if rows:
        figure = Figure(figsize=(6.4, 3.8), layout="constrained")
        axis = figure.subplots()
        sizes = sorted(int(n) for n in rows)
        for name in ("nve", "langevin", "npt", "npt_stochastic", "ase_nve"):
            known = [n for n in sizes if name in rows[str(n)]]
            axis.loglog(known, [rows[str(n)][name] for n in known], "o-", label=name)
        axis.set(xlabel="atoms", ylabel="steps/s", title=f"Speed ({device})")
        axis.legend(frameon=False)
        axis.grid(alpha=0.3, which="both")
        keep(figure, "speed")
    for name in ("nve-ethanol", "nve-crystal"):
        found = results.get(name, {})
        if "curve_ps" in found:
            figure = Figure(figsize=(6.4, 3.4), layout="constrained")
            axis = figure.subplots()
            axis.plot(found["curve_ps"], found["curve_meV_per_atom"], linewidth=0.9)
            slope = found["drift_meV_per_atom_per_ps"]
            axis.set(
                xlabel="time [ps]",
                ylabel="change of total\nenergy [meV/atom]",
                title=f"{name} ({device}): drift {slope:.2g} meV/atom/ps",
            )
            axis.grid(alpha=0.3)
            keep(figure, name)
    return made


def _good(rows: dict[str, Any] | None) -> dict[str, Any]:
    """Rows by number of atoms that did not fail."""
    found = rows or {}
    return {k: v for k, v in found.items() if k.isdigit() and "failed" not in v}
