"""Phonons of published potentials against density functional theory, for Si and NaCl.

    python evals/published_phonons.py SHARED_DATA [--out FOLDER] [--models NAME ...]

SHARED_DATA holds MDR_Si_phonon/mp-149.yaml.gz (PBE, MDR phonon database) and phonopy/NaCl (PBE,
phonopy's examples). The models must have been fetched. Supercells are those of the references (64
atoms), cells are relaxed by each model. Writes phonons.csv and a picture of all bands.
"""

from __future__ import annotations

import argparse
import csv
import warnings
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from phonopy import Phonopy, load
from rich.console import Console

from mlpot import workflows
from mlpot.calculators import MLPotCalculator
from mlpot.files import atomic_write, temporary_beside
from mlpot.workflows.phonopy_bridge import to_ase

#: In reciprocal vectors of the primitive cell (both crystals are face-centred cubic).
POINTS = {"Γ": [0, 0, 0], "X": [0.5, 0.5, 0], "L": [0.5, 0.5, 0.5]}
PATH = [[[0, 0, 0], [0.5, 0.5, 0]], [[0, 0, 0], [0.5, 0.5, 0.5]]]
COLOURS = ("#d1495b", "#00798c", "#edae49", "#66a182")


def references(shared: Path) -> dict[str, Phonopy]:
    """The calculations with density functional theory, without non-analytical corrections."""
    silicon = load(shared / "MDR_Si_phonon" / "mp-149.yaml.gz", is_nac=False, log_level=0)
    salt = load(
        shared / "phonopy" / "NaCl" / "phonopy_disp.yaml",
        force_sets_filename=shared / "phonopy" / "NaCl" / "FORCE_SETS",
        is_nac=False,
        log_level=0,
    )
    for phonopy in (silicon, salt):
        phonopy.symmetrize_force_constants(show_drift=False)
    return {"Si": silicon, "NaCl": salt}


def frequencies(phonopy: Phonopy, q_points) -> np.ndarray:
    """(n_points, n_bands), THz."""
    return np.array(phonopy.run_qpoints(np.atleast_2d(q_points)).frequencies)


def bands(phonopy: Phonopy) -> list[np.ndarray]:
    """Frequencies along each piece of the path, X to Γ first."""
    steps = np.linspace(0, 1, 51)[:, None]
    pieces = [np.array(a) + steps * (np.array(b) - np.array(a)) for a, b in PATH]
    return [frequencies(phonopy, pieces[0][::-1]), frequencies(phonopy, pieces[1])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shared", type=Path)
    parser.add_argument("--out", type=Path, default=Path("evals/results/published"))
    parser.add_argument(
        "--models", nargs="+", default=["nequix-mp-1", "nequix-mp-1-pft", "sevennet-0"]
    )
    arguments = parser.parse_args()
    console = Console()
    rows, drawn = [], {}
    for crystal, reference in references(arguments.shared).items():
        wanted = frequencies(reference, list(POINTS.values()))
        drawn[crystal] = {"DFT (PBE)": bands(reference)}
        lattice = float(np.linalg.norm(reference.unitcell.cell[0]))
        repetitions = np.rint(reference.supercell_matrix).astype(int).T
        for model in arguments.models:
            result = workflows.phonons(
                to_ase(reference.unitcell),
                MLPotCalculator(model, dtype="float64"),
                repetitions,
                mesh=(1, 1, 1),
                npoints=2,
                console=console,
            )
            found = frequencies(result.phonopy, list(POINTS.values()))
            drawn[crystal][model] = bands(result.phonopy)
            own = float(np.linalg.norm(result.atoms.cell.array[0]))
            for point, dft, values in zip(POINTS, wanted, found, strict=True):
                for band, (a, b) in enumerate(zip(dft, values, strict=True), start=1):
                    rows.append(
                        {
                            "crystal": crystal,
                            "model": model,
                            "point": point,
                            "band": band,
                            "dft_THz": round(float(a), 3),
                            "model_THz": round(float(b), 3),
                            "difference_THz": round(float(b - a), 3),
                        }
                    )
            optical = wanted.ravel() > 0.1
            error = (found - wanted).ravel()[optical]
            whole = np.concatenate(
                [
                    (x - y).ravel()
                    for x, y in zip(drawn[crystal][model], drawn[crystal]["DFT (PBE)"], strict=True)
                ]
            )
            console.print(
                f"{crystal} {model}: lattice {own:.4f} Å (DFT {lattice:.4f}); Γ, X, L: mean "
                f"absolute difference {np.abs(error).mean():.3f} THz, mean {error.mean():+.3f}; "
                f"along X-Γ-L root mean square {np.sqrt((whole**2).mean()):.3f} THz",
                highlight=False,
            )
    arguments.out.mkdir(parents=True, exist_ok=True)
    with atomic_write(arguments.out / "phonons.csv", "w") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    draw(drawn, arguments.out / "phonons.png")


def draw(drawn: dict[str, dict[str, list[np.ndarray]]], path: Path) -> None:
    figure = Figure(figsize=(9.0, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(drawn), squeeze=False)[0]
    for axes, (crystal, models) in zip(panels, drawn.items(), strict=True):
        for (name, pieces), colour in zip(models.items(), ("black", *COLOURS), strict=False):
            reference = colour == "black"
            start, ticks = 0.0, [0.0]
            for number, (piece, length) in enumerate(
                zip(pieces, (1.0, np.sqrt(0.75)), strict=True)
            ):
                x = start + np.linspace(0, length, len(piece))
                for band in range(piece.shape[1]):
                    axes.plot(
                        x,
                        piece[:, band],
                        color=colour,
                        linestyle="-" if reference else "--",
                        linewidth=1.4 if reference else 1.1,
                        label=name if number == 0 and band == 0 else None,
                    )
                start += length
                ticks.append(start)
        axes.set_xticks(ticks, ["X", "Γ", "L"])
        axes.set_xlim(0, start)
        axes.set_ylim(bottom=0)
        axes.axvline(1.0, color="#888888", linewidth=0.5)
        axes.set_title(crystal)
    panels[0].set_ylabel("frequency (THz)")
    panels[-1].legend(fontsize=8)
    with temporary_beside(path) as temporary:
        figure.savefig(temporary, dpi=150)


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()
