"""Hessian of a structure: python calculators/hessian.py best.safetensors x.xyz does it."""

import sys

import numpy as np

from mlpot import workflows
from mlpot.calculators import MLPotCalculator

if len(sys.argv) != 3:
    sys.exit(__doc__)
model, structure = sys.argv[1:]
atoms = workflows.read_structure(structure)
calc = MLPotCalculator(model, dtype="float64")
hessian = calc.get_hessian(atoms)  # (3N, 3N), eV/Angstrom^2
direction = np.random.default_rng(0).normal(size=(len(atoms), 3))
product = calc.get_hvp(atoms, direction)  # (N, 3), without forming the Hessian
print("lowest eigenvalues (eV/Angstrom^2):", np.linalg.eigvalsh(hessian)[:8])
print("largest difference:", np.abs(hessian @ direction.ravel() - product.ravel()).max())
