"""Make water.h5 and ethanol_distorted.h5: molecules about their minima with GFN2-xTB's labels.

Needs: pip install mlpot tblite    (mlpot with its extra for your machine: "mlpot[cpu]" on Linux)
Run:   python datasets/make_distorted.py            (seconds on one core)

Coordinates are moved from xTB's minima by normal deviates of 0.02, 0.035 and 0.05 Angstrom: bond
lengths then vary by up to 0.07 Angstrom (root mean square), as those with hydrogen do at the zero
point of their vibrations, which reaches farther than classical dynamics at 600 K (ethanol.h5) does.
The same seed gives the same files.
"""

import argparse
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np

try:
    from make_ethanol import LABEL_ACCURACY, METHOD, calculator, isolated_atoms

    from mlpot import datasets
except ImportError as error:
    sys.exit(f"{error}\nThis script needs: pip install mlpot tblite")

from ase.build import molecule
from ase.optimize import BFGS

SCATTER = (0.02, 0.035, 0.05)  # Angstrom
HYDROXYL = (0, 1, 2, 3)  # C, C, O, H of ethanol: 180 degrees in one conformer, 60 in the other


def water():
    """The starting structures, and the elements with their own frames."""
    return [molecule("H2O")], ["H", "O"]


def ethanol():
    """Both conformers; ethanol.h5 has the isolated atoms."""
    other = molecule("CH3CH2OH")
    other.set_dihedral(*HYDROXYL, 65, indices=[3])
    return [molecule("CH3CH2OH"), other], []


FILES = {"water.h5": (water, 600), "ethanol_distorted.h5": (ethanol, 300)}


def distorted(starts, n_frames, rng):
    """Labelled frames about the minima, in turn."""
    for minimum in starts:
        minimum.calc = calculator(LABEL_ACCURACY)
        BFGS(minimum, logfile=None).run(fmax=1e-4)
    for index in range(n_frames):
        scatter = SCATTER[index % len(SCATTER)]
        atoms = starts[index // len(SCATTER) % len(starts)].copy()
        atoms.positions += scatter * rng.standard_normal(atoms.positions.shape)
        atoms.positions -= atoms.get_center_of_mass()
        atoms.calc = calculator(LABEL_ACCURACY)
        yield datasets.Frame(
            numbers=atoms.numbers,
            positions=atoms.positions,
            energy=atoms.get_potential_energy(),
            forces=atoms.get_forces(),
            config_type=f"scatter_{scatter:g}A",
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, help="folder")
    parser.add_argument("--seed", type=int, default=20252)
    options = parser.parse_args()
    for name, (structures, n_frames) in FILES.items():
        starts, elements = structures()
        provenance = {
            "title": f"{starts[0].get_chemical_formula()}, distorted molecules",
            "method": f"{METHOD} (tblite), electronic temperature 300 K, accuracy {LABEL_ACCURACY}",
            "sampling": f"normal deviates of {SCATTER} Angstrom about the minimum",
            "isolated_atoms": "GFN2-xTB, multiplicities H 2, O 3" if elements else "none",
            "script": "datasets/make_distorted.py",
            "seed": options.seed,
            "versions": {one: version(one) for one in ("tblite", "ase", "numpy")},
            "units": "eV, Angstrom",
            "licence": "MIT",
        }
        with datasets.HDF5Writer(options.out / name, provenance) as writer:
            for frame in isolated_atoms(elements):
                writer.append(frame)
            for frame in distorted(starts, n_frames, np.random.RandomState(options.seed)):
                writer.append(frame)
        print(f"{writer.n_frames} frames in {options.out / name}")


if __name__ == "__main__":
    main()
