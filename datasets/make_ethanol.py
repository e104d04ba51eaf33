"""Make ethanol.h5: ethanol (C2H5OH) at 300 and 600 K with GFN2-xTB energies and forces.

Needs: pip install mlpot tblite    (mlpot with its extra for your machine: "mlpot[cpu]" on Linux)
Run:   python datasets/make_ethanol.py            (about five minutes on one core)

Two Langevin trajectories are sampled every 100 fs, long compared with the decay of velocities
(20 fs at the friction used), so frames are nearly independent. Labels are computed again with a
tighter self-consistency than the dynamics. The same seed gives the same file.
"""

import argparse
import os
import sys
from importlib.metadata import version
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one order of summation, one result

import numpy as np
from ase import Atoms, units
from ase.build import molecule
from ase.md.langevin import Langevin
from ase.optimize import BFGS

try:
    from tblite.ase import TBLite

    from mlpot import datasets
except ImportError as error:
    sys.exit(f"{error}\nThis script needs: pip install mlpot tblite")

METHOD = "GFN2-xTB"
TEMPERATURES = (300, 600)  # K
TIMESTEP = 0.5  # fs
FRICTION = 0.05  # 1/fs
EQUILIBRATION = 8000  # steps, 4 ps
INTERVAL = 200  # steps between frames, 100 fs
LABEL_ACCURACY = 0.01  # tblite's factor on its thresholds; 1 in the dynamics
MULTIPLICITY = {"H": 2, "C": 3, "O": 3}  # ground states of the atoms


def calculator(accuracy=1.0, **options):
    """GFN2-xTB, quiet."""
    return TBLite(method=METHOD, accuracy=accuracy, verbosity=0, **options)


def isolated_atoms(elements=tuple(MULTIPLICITY)):
    """One frame an element: its energy is the zero of that element."""
    for element in elements:
        atoms = Atoms(element)
        atoms.calc = calculator(LABEL_ACCURACY, multiplicity=MULTIPLICITY[element])
        yield datasets.Frame(
            numbers=atoms.numbers,
            positions=atoms.positions,
            energy=atoms.get_potential_energy(),
            forces=np.zeros((1, 3)),
            config_type="IsolatedAtom",
        )


def thermalize(atoms, temperature, rng):
    """Draw momenta from the Maxwell-Boltzmann distribution."""
    width = np.sqrt(units.kB * temperature * atoms.get_masses())
    atoms.set_momenta(width[:, None] * rng.standard_normal((len(atoms), 3)))


def trajectory(temperature, n_frames, rng):
    """Labelled frames of one Langevin trajectory."""
    atoms = molecule("CH3CH2OH")
    atoms.calc = calculator()
    BFGS(atoms, logfile=None).run(fmax=0.01)
    thermalize(atoms, temperature, rng)
    dynamics = Langevin(
        atoms,
        TIMESTEP * units.fs,
        temperature_K=temperature,
        friction=FRICTION / units.fs,
        rng=rng,
        fixcm=False,
    )
    dynamics.run(EQUILIBRATION)
    label = calculator(LABEL_ACCURACY)
    for index in range(n_frames):
        dynamics.run(INTERVAL)
        frame = Atoms(atoms.numbers, atoms.positions - atoms.get_center_of_mass())
        frame.calc = label
        yield datasets.Frame(
            numbers=frame.numbers,
            positions=frame.positions,
            energy=frame.get_potential_energy(),
            forces=frame.get_forces(),
            config_type=f"MD_{temperature}K",
        )
        if (index + 1) % 100 == 0:
            print(f"{temperature} K: {index + 1} of {n_frames} frames", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("ethanol.h5"))
    parser.add_argument("--frames", type=int, default=600, help="frames at each temperature")
    parser.add_argument("--seed", type=int, default=20251)
    options = parser.parse_args()
    provenance = {
        "title": "Ethanol, molecular dynamics at 300 and 600 K",
        "method": f"{METHOD} (tblite), electronic temperature 300 K, accuracy {LABEL_ACCURACY}",
        "sampling": (
            f"Langevin, step {TIMESTEP} fs, friction {FRICTION}/fs, {EQUILIBRATION} steps of "
            f"equilibration, a frame every {INTERVAL} steps"
        ),
        "isolated_atoms": "GFN2-xTB, multiplicities H 2, C 3, O 3",
        "script": "datasets/make_ethanol.py",
        "seed": options.seed,
        "versions": {name: version(name) for name in ("tblite", "ase", "numpy")},
        "units": "eV, Angstrom",
        "licence": "MIT",
    }
    with datasets.HDF5Writer(options.out, provenance) as writer:
        for frame in isolated_atoms():
            writer.append(frame)
        for temperature in TEMPERATURES:
            rng = np.random.RandomState(options.seed + temperature)
            for frame in trajectory(temperature, options.frames, rng):
                writer.append(frame)
    print(f"{writer.n_frames} frames in {options.out}")


if __name__ == "__main__":
    main()
