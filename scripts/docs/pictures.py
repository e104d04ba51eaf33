"""The pictures of the concept pages:  .venv/bin/python scripts/docs/pictures.py [FOLDER]."""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib as mpl
import mlx.core as mx
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyBboxPatch, Rectangle

from mlpot import o3

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "pictures"
BLUE, RED, GREY, INK = "#3f51b5", "#d84315", "#b0bec5", "#263238"


def irreps() -> Figure:
    """Real spherical harmonics of degree 0 to 3 on the side of a sphere that is seen."""
    figure = Figure(figsize=(7.2, 4.3))
    side = np.linspace(-1.0, 1.0, 31)
    u, v = np.meshgrid(side, side)
    depth = np.sqrt(np.clip(1.0 - u**2 - v**2, 0.0, None))
    # Seen from above and aside, so that no component vanishes on the whole picture.
    a, b = np.radians(35.0), np.radians(25.0)
    turn = np.array(
        [
            [np.cos(a), 0.0, np.sin(a)],
            [np.sin(a) * np.sin(b), np.cos(b), -np.cos(a) * np.sin(b)],
            [-np.sin(a) * np.cos(b), np.sin(b), np.cos(a) * np.cos(b)],
        ]
    )
    points = np.stack([u, v, depth], axis=-1).reshape(-1, 3) @ turn
    for l in range(4):
        values = np.array(o3.spherical_harmonics(l, mx.array(points), normalize=True))
        for m in range(2 * l + 1):
            axes = figure.add_axes((0.14 + (m - l + 3) * 0.12, 0.75 - 0.245 * l, 0.11, 0.22))
            z = values[:, m].reshape(u.shape)
            top = float(np.abs(z).max())
            levels = np.array([-1.001, -0.45, 0.0, 0.45, 1.001]) * top
            drawn = axes.contourf(u, v, z, levels=levels, cmap="RdBu_r")
            drawn.set_clip_path(Circle((0, 0), 1.0, transform=axes.transData))
            axes.add_patch(Circle((0, 0), 1.0, fill=False, color=INK, lw=0.8))
            axes.set(xlim=(-1.08, 1.08), ylim=(-1.08, 1.08), aspect="equal")
            axes.axis("off")
        name = f"{l}{'eo'[l % 2]}"
        figure.text(0.02, 0.85 - 0.245 * l, f"{name}: {2 * l + 1}", size=12, color=INK)
    return figure


def convolution() -> Figure:
    """One atom, its neighbours, and what becomes of one edge."""
    figure = Figure(figsize=(7.2, 3.1))
    axes = figure.add_axes((0.0, 0.0, 0.4, 1.0))
    axes.set(xlim=(-1.5, 1.5), ylim=(-1.6, 1.6), aspect="equal")
    axes.axis("off")
    axes.add_patch(Circle((0, 0), 1.25, fill=False, color=GREY, ls="--"))
    axes.text(0.0, -1.48, "cutoff", ha="center", color=INK)
    for angle, radius in ((35, 0.95), (120, 0.8), (200, 1.1), (285, 0.7)):
        x = radius * np.cos(np.radians(angle))
        y = radius * np.sin(np.radians(angle))
        chosen = angle == 35
        color = RED if chosen else GREY
        style = {"arrowstyle": "->", "color": color, "shrinkA": 11, "shrinkB": 13}
        axes.annotate("", (0.0, 0.0), (x, y), arrowprops=style)
        axes.add_patch(Circle((x, y), 0.15, color=color, zorder=3))
        axes.text(x, y, "j" if chosen else "", ha="center", va="center", color="w", zorder=4)
    axes.add_patch(Circle((0, 0), 0.2, color=BLUE, zorder=3))
    axes.text(0, 0, "i", ha="center", va="center", color="w", zorder=4, size=12)
    flow = figure.add_axes((0.4, 0.0, 0.6, 1.0))
    flow.set(xlim=(0, 10), ylim=(0, 7))
    flow.axis("off")
    boxes = {
        "x": (0.2, 5.3, "features of j", BLUE),
        "y": (0.2, 3.2, "direction: Y(r)", RED),
        "w": (0.2, 1.1, "length: w(|r|)", RED),
        "p": (4.0, 3.2, "w · x ⊗ Y", INK),
        "s": (7.0, 3.2, "sum over j", BLUE),
    }
    for x, y, text, color in boxes.values():
        width = 3.0 if x < 1 else 2.4
        flow.add_patch(
            FancyBboxPatch((x, y - 0.5), width, 1.0, boxstyle="round,pad=0.05", fc="w", ec=color)
        )
        flow.text(x + width / 2, y, text, ha="center", va="center", color=color, size=9.5)
    for start, end in (
        ((3.3, 5.3), (4.6, 3.85)), ((3.3, 3.2), (3.95, 3.2)), ((3.3, 1.1), (4.6, 2.55)),
        ((6.5, 3.2), (6.95, 3.2)),
    ):  # fmt: skip
        flow.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": INK})
    flow.text(8.2, 2.2, "features of i", ha="center", color=BLUE, size=9.5)
    return figure


def lazy() -> Figure:
    """What Python and the device do with one evaluation a step, and with one a result."""
    figure = Figure(figsize=(7.2, 3.0))
    axes = figure.add_axes((0.01, 0.02, 0.98, 0.96))
    axes.set(xlim=(-2.2, 12.2), ylim=(-0.3, 6.6))
    axes.axis("off")

    def bar(x: float, y: float, width: float, text: str, color: str) -> None:
        axes.add_patch(Rectangle((x, y), width, 0.75, fc=color, ec="w"))
        axes.text(x + width / 2, y + 0.37, text, ha="center", va="center", color="w", size=8)

    def rows(top: float, title: str) -> None:
        axes.text(-2.1, top + 1.05, title, size=9.5, color=INK, weight="bold")
        axes.text(-2.1, top + 0.35, "Python", size=9, color=INK, va="center")
        axes.text(-2.1, top - 0.55, "device", size=9, color=INK, va="center")

    rows(4.4, "one mx.eval for energy, forces and stress")
    for x in (0.0, 4.0):
        bar(x, 4.4, 1.0, "graph", BLUE)
        bar(x + 1.0, 3.5, 3.0, "E, F, stress", RED)
    rows(1.1, "an mx.eval after each: work done thrice, the device waits between")
    for x, name in ((0.0, "E"), (3.2, "F"), (7.2, "stress")):
        bar(x, 1.1, 1.0, "graph", BLUE)
        bar(x + 1.0, 0.2, 2.0 if name == "E" else 2.8, name, RED)
    axes.annotate("", (12.0, -0.15), (0.0, -0.15), arrowprops={"arrowstyle": "->", "color": GREY})
    axes.text(12.0, 0.0, "time", ha="right", color=INK, size=8)
    return figure


def draw(folder: Path) -> list[Path]:
    """Write all pictures; the same bytes at every run."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    settings = {"svg.hashsalt": "mlpot", "svg.fonttype": "path"}
    with mpl.rc_context(settings):
        for name, make in (("irreps", irreps), ("convolution", convolution), ("lazy", lazy)):
            path = folder / f"concepts-{name}.svg"
            make().savefig(path, metadata={"Date": None})
            written.append(path)
    return written


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    for path in draw(parser.parse_args().folder):
        print(path)
