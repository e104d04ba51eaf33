"""Frequencies of water and ethanol by a potential against those of xTB, which labelled its data.

    python evals/xtb_frequencies.py

The reference is tests/fixtures/xtb_hessians.json (scripts/xtb_hessians.py): GFN2-xTB's own minimum
and Hessian by finite differences. The potentials are models/water.safetensors and
models/ethanol.safetensors, unless others are given. Each relaxes the molecule; its Hessian is
exact. Prints a table and writes xtb-frequencies.json and a picture into the folder --out.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from ase import Atoms
from benchmark.environment import this_run
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from rich.console import Console

from mlpot import workflows
from mlpot.calculators import MLPotCalculator
from mlpot.files import atomic_write, temporary_beside
from mlpot.units import INVERSE_CM_PER_THZ
from mlpot.workflows.vibrations import analyse

ROOT = Path(__file__).parents[1]
FIXTURE = ROOT / "tests" / "fixtures" / "xtb_hessians.json"
MOLECULES = {"water": "H2O", "ethanol": "CH3CH2OH"}


def wavenumbers(atoms: Atoms, hessian: np.ndarray) -> np.ndarray:
    """Frequencies of the vibrations, 1/cm, ascending."""
    return analyse(atoms, hessian)[0] * INVERSE_CM_PER_THZ


def compare(name: str, model: Path, reference: dict) -> dict:
    minimum = Atoms(reference["numbers"], reference["positions"])
    expected = wavenumbers(minimum, np.array(reference["hessian"]))
    calc = MLPotCalculator(model, dtype="float64")
    relaxed, report = workflows.relax_and_report(
        minimum, calc, 1e-6, False, 500, False, Console(quiet=True)
    )
    found = wavenumbers(relaxed, calc.get_hessian(relaxed))
    # The same Hessian where xTB has its minimum: what the shift of the minimum does.
    there = wavenumbers(minimum, calc.get_hessian(minimum))
    distances = [a.get_all_distances() for a in (relaxed, minimum)]
    return {
        "molecule": name,
        "xtb_per_cm": np.round(expected, 2).tolist(),
        "model_per_cm": np.round(found, 2).tolist(),
        "model_at_xtb_minimum_per_cm": np.round(there, 2).tolist(),
        "mean_absolute_per_cm": float(np.abs(found - expected).mean()),
        "largest_per_cm": float(np.abs(found - expected).max()),
        "bond_lengths_angstrom": float(np.abs(distances[0] - distances[1]).max()),
        "zero_point_meV": {
            key: float(0.5 * values.sum() / 8065.543937 * 1e3)
            for key, values in (("xtb", expected), ("model", found))
        },
        "converged": report.converged,
    }


def draw(rows: list[dict], path: Path) -> None:
    figure = Figure(figsize=(4.6 * len(rows), 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, row in zip(figure.subplots(1, len(rows), squeeze=False)[0], rows, strict=True):
        expected, found = np.array(row["xtb_per_cm"]), np.array(row["model_per_cm"])
        axes.axhline(0.0, color="#888888", linewidth=0.8)
        axes.vlines(expected, 0.0, found - expected, color="#1f5fa8", linewidth=1.2)
        axes.plot(expected, found - expected, "o", color="#1f5fa8", markersize=4)
        axes.set_xlabel("GFN2-xTB (1/cm)")
        axes.set_ylabel("potential minus GFN2-xTB (1/cm)")
        mean = row["mean_absolute_per_cm"]
        axes.set_title(f"{row['molecule']}: mean absolute difference {mean:.1f}/cm", fontsize=11)
    with temporary_beside(path) as temporary:
        figure.savefig(temporary, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in MOLECULES:
        default = ROOT / "models" / f"{name}.safetensors"
        parser.add_argument(f"--{name}", type=Path, default=default, help=f"potential of {name}")
    parser.add_argument("--out", type=Path, default=Path("evals/results"))
    arguments = parser.parse_args()
    references = json.loads(FIXTURE.read_text())
    rows = []
    for name, formula in MOLECULES.items():
        rows.append(compare(name, getattr(arguments, name), references[formula]))
        row = rows[-1]
        print(f"{name}:   xTB   potential   difference (1/cm)")
        for a, b in zip(row["xtb_per_cm"], row["model_per_cm"], strict=True):
            print(f"  {a:9.1f} {b:9.1f} {b - a:+9.1f}")
        print(
            f"  mean {row['mean_absolute_per_cm']:.1f}, largest {row['largest_per_cm']:.1f}; "
            f"distances within {row['bond_lengths_angstrom']:.4f} Angstrom"
        )
    arguments.out.mkdir(parents=True, exist_ok=True)
    about = this_run()
    with atomic_write(arguments.out / "xtb-frequencies.json", "w") as file:
        json.dump({"about": about, "rows": rows}, file, indent=1)
        file.write("\n")
    draw(rows, arguments.out / "xtb-frequencies.png")


if __name__ == "__main__":
    main()
