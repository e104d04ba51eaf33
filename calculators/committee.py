"""What a committee disagrees about: committee.py frames.xyz a.safetensors b.safetensors says it.

Each frame's energy and largest force with their standard deviations over the members. Potentials
that differ by the seed of their training agree where data were dense; the frames of largest
disagreement are those to label next (tutorials/active_learning.py goes on from there).
"""

import sys

import numpy as np
from ase import Atoms
from ase.io import iread

from mlpot.calculators import MLPotCalculator

if len(sys.argv) < 3:
    sys.exit(__doc__)
calc = MLPotCalculator(sys.argv[2:])  # patterns work too: "runs/seed*/best.safetensors"
if len(calc.members) < 2:
    sys.exit(f"{sys.argv[2]} is one potential: a committee has several")
rows = []
for number, atoms in enumerate(iread(sys.argv[1], index=":")):
    assert isinstance(atoms, Atoms)
    calc.calculate(atoms, ["energy", "forces"])
    energy = float(calc.results["energy"])
    spread = np.sqrt(float(calc.results["energy_var"])) / len(atoms)
    force = np.linalg.norm(calc.results["forces"], axis=1).max()
    doubt = np.sqrt(np.asarray(calc.results["forces_var"]).sum(axis=1))  # (n_atoms,), eV/Angstrom
    rows.append((doubt.max(), number))
    print(
        f"frame {number}: {energy:.4f} eV, ± {1000 * spread:.2f} meV/atom; largest force "
        f"{force:.3f} eV/Å, most disputed ± {doubt.max():.3f} (atom {doubt.argmax()})"
    )
print("most disputed first:", *[number for _, number in sorted(rows, reverse=True)][:20])
