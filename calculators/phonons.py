"""Phonons of a crystal, as python calculators/phonons.py best.safetensors crystal.cif does."""

import sys

from mlpot import workflows
from mlpot.calculators import MLPotCalculator

if len(sys.argv) != 3:
    sys.exit(__doc__)
model, structure = sys.argv[1:]
atoms = workflows.read_structure(structure)
calc = MLPotCalculator(model, dtype="float64")
result = workflows.phonons(atoms, calc, supercell=(3, 3, 3), out="phonons", overwrite=True)
print("frequencies at Gamma (THz):", result.frequencies([0, 0, 0])[0])
for name, path in result.files.items():
    print(f"{name}: {path}")
