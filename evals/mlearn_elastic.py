"""Elastic constants of Si, Cu and Mo by potentials trained on mlearn, against its DFT labels.

    python evals/mlearn_elastic.py SHARED_DATA --Si si.safetensors --Cu cu.safetensors

SHARED_DATA/mlearn holds the labels (Zuo et al., J. Phys. Chem. A 124, 731 (2020)). Clamped-ion
constants by exact second derivatives are compared with those by finite strain of the same
potential, and with fits to the labels of the strained cells of the data (REFERENCE below, which
scatter by some 5 GPa). Prints a table and writes mlearn-elastic.json into the folder --out.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
from ase import Atoms
from ase.build import bulk
from benchmark.environment import describe
from rich.console import Console

from mlpot import datasets, workflows
from mlpot.calculators import MLPotCalculator
from mlpot.files import atomic_write

#: C11, C12, C44 in GPa with clamped ions, by fits to energies and stresses of the labels; silicon's
#: C12 is between the two.
REFERENCE = {"Si": (153, (57, 60), 99), "Cu": (173, 140, 86), "Mo": (480, 164, 108)}
CRYSTALS = {
    "Si": bulk("Si", a=5.469, cubic=True),
    "Cu": bulk("Cu", a=3.621, cubic=True),
    "Mo": bulk("Mo", a=3.168, cubic=True),
}
FILES = {"Si": "Si_test", "Cu": "Cu_test", "Mo": "Mo_test"}


def constants(c: np.ndarray) -> list[float]:
    """C11, C12, C44 of a cubic tensor, GPa: means over what is equal by symmetry."""
    cubic = [c[:3, :3].diagonal().mean(), (c[0, 1] + c[0, 2] + c[1, 2]) / 3, c[3:, 3:].diagonal()]
    return [float(np.mean(value)) for value in cubic]


def errors(model: str, path: Path) -> dict:
    """Errors of forces and energies on the labels of the test set."""
    calc = MLPotCalculator(model)
    forces, energies = [], []
    for frame in datasets.read([path]):
        atoms: Atoms = frame.to_atoms()
        found = calc.get_property("forces", atoms)
        forces.append(np.abs(found - frame.forces).ravel())
        energies.append((calc.get_property("energy", atoms) - frame.energy) / len(atoms))
    return {
        "forces_mae_meV_per_A": float(np.concatenate(forces).mean() * 1e3),
        "energy_mae_meV_per_atom": float(np.abs(energies).mean() * 1e3),
    }


def compare(element: str, model: str, shared: Path) -> dict:
    calc = MLPotCalculator(model, dtype="float64")
    quiet = Console(quiet=True)
    exact = workflows.elastic(CRYSTALS[element], calc, console=quiet)
    strained = workflows.elastic(exact.atoms, calc, False, method="strains", console=quiet)
    return {
        "element": element,
        "model": str(model),
        "lattice_constant_angstrom": float(exact.atoms.cell.lengths().mean()),
        "clamped_GPa": constants(exact.clamped),
        "clamped_by_strains_GPa": constants(strained.clamped),
        "relaxed_GPa": constants(exact.relaxed),
        "relaxed_by_strains_GPa": constants(strained.relaxed),
        "labels_GPa": REFERENCE[element],
        **errors(model, shared / "mlearn" / f"{FILES[element]}.extxyz.gz"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shared", type=Path)
    for element in REFERENCE:
        parser.add_argument(f"--{element}", help="potential trained on mlearn's frames of it")
    parser.add_argument("--out", type=Path, default=Path("evals/results"))
    arguments = parser.parse_args()
    given = {e: getattr(arguments, e) for e in REFERENCE if getattr(arguments, e)}
    if not given:
        parser.error("give a potential, such as --Si si.safetensors")
    rows = []
    for element, model in given.items():
        rows.append(compare(element, model, arguments.shared))
        row = rows[-1]
        print(f"{element}, a = {row['lattice_constant_angstrom']:.4f} Angstrom; C11 C12 C44 (GPa)")
        for key in ("clamped", "clamped_by_strains", "relaxed", "relaxed_by_strains"):
            numbers = " ".join(f"{c:8.2f}" for c in row[f"{key}_GPa"])
            print(f"  {key.replace('_', ' '):20s} {numbers}")
        print(f"  {'labels, clamped':20s} {row['labels_GPa']}")
        print(
            f"  test set: forces {row['forces_mae_meV_per_A']:.1f} meV/A, energies "
            f"{row['energy_mae_meV_per_atom']:.2f} meV/atom (mean absolute errors)"
        )
    arguments.out.mkdir(parents=True, exist_ok=True)
    about = describe("python " + " ".join(["evals/mlearn_elastic.py", *sys.argv[1:]]))
    with atomic_write(arguments.out / "mlearn-elastic.json", "w") as file:
        json.dump({"about": about, "rows": rows}, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
