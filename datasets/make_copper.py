"""Make copper.h5: fcc copper with energies, forces and stresses of ASE's EMT potential.

Needs: pip install mlpot    (with its extra for your machine: "mlpot[cpu]" on Linux)
Run:   python datasets/make_copper.py            (about three minutes on one core)

Many small cells, so that training is quick, and some of 3x3x3 conventional cells, where phonons
and vacancies have room. The same seed gives the same file.
"""

import argparse
import os
import sys
from importlib.metadata import version
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one order of summation, one result

import numpy as np
from ase import Atoms, units
from ase.build import bulk
from ase.calculators.emt import EMT
from ase.filters import UnitCellFilter
from ase.md.langevin import Langevin
from ase.optimize import BFGS

try:
    from mlpot import datasets
except ImportError as error:
    sys.exit(f"{error}\nThis script needs: pip install mlpot")

TIMESTEP = 4.0  # fs
FRICTION = 0.02  # 1/fs
EQUILIBRATION = 250  # steps, 1 ps
INTERVAL = 50  # steps between frames, 200 fs


def lattice_constant():
    """Equilibrium lattice constant of EMT copper in Angstrom."""
    atoms = bulk("Cu", cubic=True)
    atoms.calc = EMT()
    BFGS(UnitCellFilter(atoms, hydrostatic_strain=True), logfile=None).run(fmax=1e-7, steps=200)
    return float(atoms.cell[0, 0])


def label(atoms, config_type):
    """A frame with EMT's energy, forces and stress."""
    atoms = atoms.copy()
    atoms.wrap()
    atoms.calc = EMT()
    return datasets.Frame(
        numbers=atoms.numbers,
        positions=atoms.positions,
        cell=atoms.cell.array,
        pbc=atoms.pbc,
        energy=atoms.get_potential_energy(),
        forces=atoms.get_forces(),
        stress=atoms.get_stress(voigt=False),
        config_type=config_type,
    )


def strained(atoms, rng, shear, volume):
    """A copy under a random symmetric strain: up to ``shear``, and ``volume`` of dilation."""
    strain = rng.uniform(-shear, shear, (3, 3))
    strain = (strain + strain.T) / 2
    strain += (rng.uniform(-volume, volume) - np.trace(strain)) / 3 * np.eye(3)
    deformed = atoms.copy()
    deformed.set_cell(atoms.cell.array @ (np.eye(3) + strain), scale_atoms=True)
    return deformed


def rattled(atoms, rng, largest):
    """A copy with normal displacements of a random width up to ``largest`` Angstrom."""
    moved = atoms.copy()
    moved.positions += rng.uniform(0.1, 1) * largest * rng.normal(size=(len(atoms), 3))
    return moved


def thermalize(atoms, temperature, rng):
    """Draw momenta from the Maxwell-Boltzmann distribution."""
    width = np.sqrt(units.kB * temperature * atoms.get_masses())
    atoms.set_momenta(width[:, None] * rng.standard_normal((len(atoms), 3)))


def dynamics(atoms, temperature, n_frames, rng, config_type):
    """Frames of a Langevin trajectory in a cell expanded as that temperature asks for."""
    atoms = atoms.copy()
    atoms.set_cell(atoms.cell * (1 + 1.7e-5 * temperature), scale_atoms=True)
    atoms.calc = EMT()
    seeded = np.random.RandomState(rng.integers(2**31))
    thermalize(atoms, temperature, seeded)
    md = Langevin(
        atoms,
        TIMESTEP * units.fs,
        temperature_K=temperature,
        friction=FRICTION / units.fs,
        rng=seeded,
        fixcm=False,
    )
    md.run(EQUILIBRATION)
    for _ in range(n_frames):
        md.run(INTERVAL)
        yield label(atoms, config_type)
    print(f"{config_type}: {n_frames} frames of {len(atoms)} atoms", flush=True)


def frames(a, rng):
    """All frames, kind after kind."""
    isolated = Atoms("Cu")
    isolated.calc = EMT()
    yield datasets.Frame(
        numbers=isolated.numbers,
        positions=isolated.positions,
        energy=isolated.get_potential_energy(),
        forces=np.zeros((1, 3)),
        config_type="IsolatedAtom",
    )
    primitive, cubic = bulk("Cu", a=a), bulk("Cu", a=a, cubic=True)
    for _ in range(40):
        yield label(strained(primitive, rng, shear=0.05, volume=0.2), "strained")
    for _ in range(120):
        cell = strained(cubic, rng, shear=0.05, volume=0.15)
        yield label(rattled(cell, rng, 0.1), "strained_rattled")
    for _ in range(100):
        cell = strained(primitive * (2, 2, 2), rng, shear=0.02, volume=0.06)
        yield label(rattled(cell, rng, 0.14), "rattled")
    for temperature in (300, 600, 900, 1200):
        yield from dynamics(cubic * (2, 2, 2), temperature, 30, rng, f"MD_{temperature}K")
    large = cubic * (3, 3, 3)
    for _ in range(30):
        yield label(rattled(large, rng, 0.03), "phonon")
    for temperature in (300, 900):
        yield from dynamics(large, temperature, 15, rng, f"MD_{temperature}K")
    for cell, n_frames in ((cubic * (2, 2, 2), 20), (large, 10)):
        del cell[0]
        for temperature in (300, 900):
            yield from dynamics(cell, temperature, n_frames, rng, f"vacancy_{temperature}K")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("copper.h5"))
    parser.add_argument("--seed", type=int, default=20252)
    options = parser.parse_args()
    a = lattice_constant()
    provenance = {
        "title": "Copper: strained, rattled, molecular dynamics and vacancies",
        "method": "effective medium theory (EMT) as in ASE",
        "sampling": (
            f"lattice constant {a:.5f} Angstrom; random strains and displacements; Langevin, step "
            f"{TIMESTEP} fs, friction {FRICTION}/fs, a frame every {INTERVAL} steps"
        ),
        "script": "datasets/make_copper.py",
        "seed": options.seed,
        "versions": {name: version(name) for name in ("ase", "numpy")},
        "units": "eV, Angstrom, eV/Angstrom^3",
        "licence": "MIT",
    }
    count = datasets.write_hdf5(
        options.out, frames(a, np.random.default_rng(options.seed)), provenance
    )
    print(f"{count} frames in {options.out}")


if __name__ == "__main__":
    main()
