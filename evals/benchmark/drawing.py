"""Bar charts as SVG, without a plotting library."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

COLORS = {
    "e3nn": "#8c8c8c",
    "mlpot-reference": "#9ecae1",
    "mlpot-reference-compiled": "#6baed6",
    "mlpot-kernels": "#d95f0e",
    "mlpot-kernels-exact": "#fdae6b",
    "mlpot-kernels-compiled": "#993404",
    "cuequivariance": "#31a354",
    "e3nn-mlx": "#756bb1",
    "nequip": "#bcbddc",
    "mace": "#c7e9c0",
    "mace-cuequivariance": "#74c476",
}
LABELS, WIDTH, BAR, GAP = 430, 460, 13, 12


def bars(
    title: str,
    unit: str,
    groups: Sequence[tuple[str, Sequence[tuple[str, dict[str, float]]]]],
    origin: float | None = None,
) -> str:
    """Horizontal bars on a logarithmic axis.

    Args:
        title: above the chart.
        unit: behind each number.
        groups: (name, [(implementation, {"median", "low", "high"})]).
        origin: where bars begin; None: at the left end.

    Returns:
        The text of an SVG file.
    """
    spreads = [spread for _, rows in groups for _, spread in rows]
    if not spreads:
        return _document(title, 60, ["<text x='10' y='50'>nothing was timed</text>"])
    given = [] if origin is None else [origin]
    low = math.floor(math.log10(min([s["low"] for s in spreads] + given)))
    high = max(math.ceil(math.log10(max([s["high"] for s in spreads] + given))), low + 1)
    start = 10.0**low if origin is None else origin

    def place(value: float) -> float:
        return LABELS + WIDTH * (math.log10(value) - low) / (high - low)

    parts, y = [], 50.0
    for name, rows in groups:
        height = BAR * len(rows)
        middle = y + height / 2 + 4
        parts.append(
            f"<text x='{LABELS - 8}' y='{middle:.0f}' text-anchor='end'>{html.escape(name)}</text>"
        )
        for implementation, s in rows:
            parts += _bar(implementation, s, unit, y, start, place)
            y += BAR
        y += GAP
    axis = []
    for power in range(low, high + 1):
        x = place(10.0**power)
        axis.append(f"<line x1='{x:.1f}' x2='{x:.1f}' y1='44' y2='{y:.0f}' stroke='#ddd'/>")
        axis.append(f"<text x='{x:.1f}' y='40' text-anchor='middle'>{10.0**power:g} {unit}</text>")
    used = dict.fromkeys(name for _, rows in groups for name, _ in rows)
    for i, name in enumerate(used):
        x, line = 10 + 230 * (i % 4), y + 14 + 18 * (i // 4)
        parts.append(
            f"<rect x='{x}' y='{line - 9:.0f}' width='10' height='10' fill='{_color(name)}'/>"
            f"<text x='{x + 14}' y='{line:.0f}'>{html.escape(name)}</text>"
        )
    return _document(title, y + 30 + 18 * (len(used) // 4), axis + parts)


def _bar(name: str, s: dict[str, float], unit: str, y: float, origin: float, place) -> list[str]:
    left, right, middle = place(origin), place(s["median"]), y + BAR / 2
    text = f"{name}: {s['median']:.4g} {unit} ({s['low']:.4g} to {s['high']:.4g})"
    start, length = min(left, right), abs(right - left)
    return [
        f"<rect x='{start:.1f}' y='{y + 1:.1f}' width='{length:.1f}' height='{BAR - 2}' "
        f"fill='{_color(name)}'><title>{html.escape(text)}</title></rect>",
        f"<line x1='{place(s['low']):.1f}' x2='{place(s['high']):.1f}' y1='{middle:.1f}' "
        f"y2='{middle:.1f}' stroke='#222'/>",
        f"<text x='{place(s['high']) + 4:.1f}' y='{middle + 4:.1f}' fill='#444'>"
        f"{s['median']:.3g}</text>",
    ]


def _color(name: str) -> str:
    return COLORS.get(name, "#444")


def _document(title: str, height: float, parts: Sequence[str]) -> str:
    width = LABELS + WIDTH + 70
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height:.0f}' "
        f"viewBox='0 0 {width} {height:.0f}' font-family='sans-serif' font-size='11'>"
        f"<rect width='100%' height='100%' fill='white'/>"
        f"<text x='10' y='18' font-size='14'>{html.escape(title)}</text>"
        + "".join(parts)
        + "</svg>\n"
    )
