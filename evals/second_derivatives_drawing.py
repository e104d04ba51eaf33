"""One picture of what second_derivatives.py measured."""

from __future__ import annotations

from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from mlpot.files import temporary_beside

WAYS = {
    "products": ("#1f5fa8", "exact products, symmetry"),
    "displacements": ("#66a182", "displacements, symmetry"),
    "displacements, plus and minus": ("#edae49", "plus and minus, symmetry"),
    "displacements, no symmetry": ("#d1495b", "plus and minus, no symmetry"),
}


def draw(results: dict, path: Path) -> None:
    figure = Figure(figsize=(13.0, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    left, middle, right = figure.subplots(1, 3)
    _products(left, results.get("products", {}).get("rows", []))
    _phonons(middle, results.get("phonons", {}).get("rows", []))
    _memory(right, results.get("memory", {}).get("rows", []))
    with temporary_beside(path) as temporary:
        figure.savefig(temporary, dpi=150)


def _products(axes, rows: list[dict]) -> None:
    rows = [row for row in rows if row["dtype"] == "float64"]
    names = [f"{row['model']}\n{row['structure']}, {row['atoms']} atoms" for row in rows]
    bars = {
        "ratio": ("#1f5fa8", "any vector"),
        "ratio_of_eight": ("#9dbbdf", "each of eight together"),
        "ratio_near": ("#b03030", "two atoms move"),
        "ratio_of_eight_near": ("#e2a5a5", "each of eight, two atoms move"),
    }
    places = range(len(rows))
    for index, (key, (colour, label)) in enumerate(bars.items()):
        at = [p + 0.2 * (1.5 - index) for p in places]
        axes.barh(at, [row[key] for row in rows], 0.19, color=colour, label=label)
    axes.axvline(2.5, color="#888888", linestyle="--", linewidth=1)
    axes.set_yticks(list(places), names, fontsize=8)
    axes.set_xlabel("time over that of energy and forces")
    axes.set_title("Hessian-vector products, float64", fontsize=11)
    axes.set_xlim(0, 1.4 * axes.get_xlim()[1])  # room for the legend
    axes.legend(fontsize=8, loc="lower right")


def _phonons(axes, rows: list[dict]) -> None:
    for index, (way, (colour, label)) in enumerate(WAYS.items()):
        places = [n + 0.2 * (1.5 - index) for n in range(len(rows))]
        axes.barh(places, [row["seconds"][way] for row in rows], 0.19, color=colour, label=label)
    axes.set_yticks(range(len(rows)), [f"{r['model']}\n{r['crystal']}" for r in rows], fontsize=8)
    axes.set_xlabel("CPU seconds for all force constants")
    axes.set_title("Phonons, 4 x 4 x 4 primitive cells", fontsize=11)
    axes.legend(fontsize=8)


def _memory(axes, rows: list[dict]) -> None:
    for way, colour in (("dense", "#d1495b"), ("chunked", "#edae49"), ("lanczos", "#1f5fa8")):
        mine = [row for row in rows if row["way"] == way]
        totals = [row["device_MB"] + row["host_MB"] for row in mine]
        axes.loglog([row["atoms"] for row in mine], totals, "o-", color=colour, label=way)
    axes.set_xlabel("atoms")
    axes.set_ylabel("peak memory (MB)")
    axes.set_title("Copper: whole Hessian and Lanczos", fontsize=11)
    axes.legend(fontsize=8)
