"""Structures that other programs compute for tests/fixtures, and their results as JSON."""

from __future__ import annotations

import numpy as np
from ase import Atoms
from ase.build import bulk


def structures() -> dict[str, Atoms]:
    """A strained cell of silicon, a cell of rock salt and a cluster, all rattled."""
    silicon = bulk("Si", a=5.43)
    strain = np.array([[0.02, 0.01, 0.0], [0.0, -0.01, 0.015], [0.0, 0.0, 0.01]])
    silicon.set_cell(silicon.cell.array @ (np.eye(3) + strain), scale_atoms=True)
    salt = bulk("NaCl", "rocksalt", a=5.64)
    cluster = Atoms("SiNaCl2", [[0, 0, 0], [2.4, 0.3, 0], [-0.2, 2.3, 0.4], [1.0, 1.1, 2.2]])
    cluster.set_cell(np.eye(3) * 12.0)
    cluster.pbc = True
    found = {"silicon": silicon, "salt": salt, "cluster": cluster}
    for seed, atoms in enumerate(found.values()):
        atoms.rattle(0.1, seed=seed)
    return found


def evaluate(atoms: Atoms, calculator) -> dict:
    """Structure and results; energy eV, forces eV/Angstrom, stress eV/Angstrom^3."""
    atoms = atoms.copy()
    atoms.calc = calculator
    return {
        "numbers": atoms.numbers.tolist(),
        "positions": atoms.positions.tolist(),
        "cell": atoms.cell.array.tolist(),
        "energy": float(atoms.get_potential_energy()),
        "forces": atoms.get_forces().tolist(),
        "stress_voigt": atoms.get_stress().tolist(),
    }
