"""Hessians of small molecules by GFN2-xTB, for evals/xtb_frequencies.py.

    pip install tblite ase
    python scripts/xtb_hessians.py

Relaxes water and ethanol with xTB and takes central differences of its forces (0.005 Angstrom,
tight self-consistency). Writes tests/fixtures/xtb_hessians.json.
"""

from __future__ import annotations

import argparse
import json
import os
from importlib.metadata import version
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from ase import Atoms
from ase.build import molecule
from ase.optimize import BFGS
from tblite.ase import TBLite

STEP = 0.005  # Angstrom


def xtb() -> TBLite:
    return TBLite(method="GFN2-xTB", accuracy=0.01, verbosity=0)


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="tests/fixtures/xtb_hessians.json", type=Path)
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
    arguments.out.write_text(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
