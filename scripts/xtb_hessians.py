"""Hessians of small molecules by GFN2-xTB, for evals/xtb_frequencies.py.

    pip install tblite ase
    python scripts/xtb_hessians.py [--water-frames water.extxyz]

Relaxes water and ethanol with xTB and takes central differences of its forces (0.005 Angstrom,
tight self-consistency). Writes tests/fixtures/xtb_hessians.json. With --water-frames also labelled
frames of water near its minimum, to train a potential on; ethanol's are datasets/ethanol.h5.
"""

from __future__ import annotations

import argparse
import json
import os
from importlib.metadata import version
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import ase.io
import numpy as np
from ase import Atoms
from ase.build import molecule
from ase.calculators.singlepoint import SinglePointCalculator
from ase.optimize import BFGS
from tblite.ase import TBLite

STEP = 0.005  # Angstrom
SCATTER = (0.02, 0.05, 0.1)  # Angstrom, of the frames of water
MULTIPLICITY = {"H": 2, "O": 3}


def xtb(multiplicity: int = 1) -> TBLite:
    return TBLite(method="GFN2-xTB", accuracy=0.01, multiplicity=multiplicity, verbosity=0)


def hessian(atoms: Atoms) -> np.ndarray:
    """(3 n_atoms, 3 n_atoms), eV/Angstrom^2, symmetrised."""
    rows = []
    for atom in range(len(atoms)):
        for axis in range(3):
            forces = []
            for sign in (1, -1):
                moved = atoms.copy()
                moved.positions[atom, axis] += sign * STEP
                moved.calc = xtb()
                forces.append(moved.get_forces().ravel())
            rows.append((forces[1] - forces[0]) / (2 * STEP))
    found = np.array(rows)
    return 0.5 * (found + found.T)


def frames_of_water(minimum: Atoms, n: int) -> list[Atoms]:
    rng = np.random.default_rng(0)
    frames = []
    for number in range(n):
        atoms = minimum.copy()
        atoms.positions += rng.normal(scale=SCATTER[number % 3], size=(3, 3))
        atoms.calc = xtb()
        results = {"energy": atoms.get_potential_energy(), "forces": atoms.get_forces()}
        atoms.calc = SinglePointCalculator(atoms, **results)
        frames.append(atoms)
    for symbol, multiplicity in MULTIPLICITY.items():
        atom = Atoms(symbol, info={"config_type": "IsolatedAtom"})
        atom.calc = xtb(multiplicity)
        energy = atom.get_potential_energy()
        atom.calc = SinglePointCalculator(atom, energy=energy, forces=np.zeros((1, 3)))
        frames.append(atom)
    return frames


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="tests/fixtures/xtb_hessians.json", type=Path)
    parser.add_argument("--water-frames", type=Path)
    parser.add_argument("--frames", type=int, default=300)
    arguments = parser.parse_args()
    found = {"method": "GFN2-xTB", "tblite": version("tblite"), "step_angstrom": STEP}
    for name in ("H2O", "CH3CH2OH"):
        atoms = molecule(name)
        atoms.calc = xtb()
        BFGS(atoms, logfile=None).run(fmax=1e-5, steps=500)
        found[name] = {
            "numbers": atoms.numbers.tolist(),
            "positions": np.round(atoms.positions, 8).tolist(),
            "fmax": float(np.linalg.norm(atoms.get_forces(), axis=1).max()),
            "hessian": np.round(hessian(atoms), 7).tolist(),
        }
        if name == "H2O" and arguments.water_frames:
            ase.io.write(arguments.water_frames, frames_of_water(atoms, arguments.frames))
    arguments.out.write_text(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
