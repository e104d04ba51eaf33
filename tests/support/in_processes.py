"""What a spawned process runs in tests of calculators."""

from __future__ import annotations

import numpy as np
from ase import Atoms


def compute(atoms: Atoms) -> tuple[float, np.ndarray, np.ndarray]:
    """Energy, forces and a Hessian-vector product of atoms that bring their calculator."""
    product = atoms.calc.get_hvp(atoms, np.ones((len(atoms), 3)) * [1.0, 0.0, 0.0])
    return atoms.get_potential_energy(), atoms.get_forces(), product
