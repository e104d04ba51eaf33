"""Band structure and density of states in one picture."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from phonopy import Phonopy

_BLUE, _GREY = "#1f5fa8", "#888888"
_ELEMENTS = ("#b03030", "#2f7d4f", "#c8801e", "#7a4fa0", "#3a9aa8")


@dataclass(frozen=True)
class Segment:
    """One straight piece of the path through the Brillouin zone.

    Args:
        q_points: (n_points, 3), in reciprocal lattice vectors of the primitive cell.
        distances: (n_points,), along the whole path, 1/Angstrom.
        frequencies: (n_points, n_bands), THz.
        start: name of the first point.
        end: name of the last point.
        connected: whether the next segment begins where this one ends.
    """

    q_points: np.ndarray
    distances: np.ndarray
    frequencies: np.ndarray
    start: str
    end: str
    connected: bool


def plain_label(label: str) -> str:
    """A point's name without LaTeX marks, e.g. "Γ" or "S_2"."""
    for mark in ("$", "\\mathrm", "{", "}"):
        label = label.replace(mark, "")
    return label.replace("\\Gamma", "Γ").replace("GAMMA", "Γ").replace("\\", "")


def segments(phonopy: Phonopy) -> list[Segment]:
    """The computed band structure piece by piece."""
    structure = phonopy.band_structure
    assert structure is not None and structure.path_connections is not None
    names = [plain_label(label) for label in structure.labels or []]
    connections = list(structure.path_connections)
    result, at = [], 0
    for i, connected in enumerate(connections):
        # A point shared by two pieces has one label, a gap has two.
        result.append(
            Segment(
                np.array(structure.qpoints[i]),
                np.array(structure.distances[i]),
                np.array(structure.frequencies[i]),
                names[at],
                names[at + 1],
                bool(connected),
            )
        )
        at += 1 if connected else 2
    return result


def _draw_elements(axes: Any, phonopy: Phonopy) -> None:
    """The share of each element in the density of states, where it was computed."""
    projected = phonopy.projected_dos
    if projected is None:
        return
    symbols = np.array(phonopy.primitive.symbols)
    for symbol, color in zip(dict.fromkeys(symbols.tolist()), _ELEMENTS * 8, strict=False):
        share = np.array(projected.projected_dos)[symbols == symbol].sum(axis=0)
        axes.plot(share, projected.frequency_points, color=color, linewidth=1.0, label=symbol)
    axes.legend(fontsize=8)


def draw(phonopy: Phonopy, path: Path, title: str) -> None:
    """Draw bands and DOS.

    Args:
        phonopy: after bands and DOS were computed.
        path: PNG or SVG, by its ending.
        title: above the picture.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(3, 1))
    pieces = segments(phonopy)
    ticks: list[float] = []
    names: list[str] = []
    joined = False
    for piece in pieces:
        left.plot(piece.distances, piece.frequencies, color=_BLUE, linewidth=1.2)
        if not ticks:
            ticks, names = [float(piece.distances[0])], [piece.start]
        elif not joined:
            names[-1] = f"{names[-1]}|{piece.start}"
        ticks.append(float(piece.distances[-1]))
        names.append(piece.end)
        joined = piece.connected
    for tick in ticks:
        left.axvline(tick, color=_GREY, linewidth=0.5)
    left.set_xticks(ticks, names)
    left.set_xlim(ticks[0], ticks[-1])
    lowest = min(float(piece.frequencies.min()) for piece in pieces)
    highest = max(float(piece.frequencies.max()) for piece in pieces)
    below = lowest < -0.01 * highest  # acoustic modes at Gamma are zero to rounding
    left.set_ylabel("frequency (THz); imaginary below 0" if below else "frequency (THz)")
    left.set_ylim(lowest - 0.05 * highest if below else -0.02 * highest, 1.05 * highest)
    figure.suptitle(title)
    dos = phonopy.total_dos
    assert dos is not None
    right.plot(dos.dos, dos.frequency_points, color=_BLUE, linewidth=1.2)
    right.fill_betweenx(dos.frequency_points, dos.dos, color=_BLUE, alpha=0.2)
    _draw_elements(right, phonopy)
    right.set_xlim(left=0)
    right.set_xlabel("DOS (states/THz/cell)")
    for axes in (left, right):
        axes.axhline(0.0, color=_GREY, linewidth=0.8, linestyle="--")
    figure.savefig(path, dpi=120)
