"""Langevin dynamics with plain ASE and the calculator: copy it and change it."""

import argparse

import numpy as np
from ase import Atoms, units
from ase.constraints import FixCom
from ase.io import read
from ase.io.trajectory import TrajectoryWriter
from ase.md.langevin import Langevin

from mlpot.calculators import MLPotCalculator
from mlpot.md import maxwell_boltzmann

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("model", help="potential, .safetensors")
parser.add_argument("struct", help="structure, any format that ASE reads")
parser.add_argument("--temperature", type=float, default=300.0, help="K")
parser.add_argument("--timestep", type=float, default=0.5, help="fs")
parser.add_argument("--friction", type=float, default=10.0, help="1/ps")
parser.add_argument("--steps", type=int, default=1000)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--trajectory", default="langevin.traj")
arguments = parser.parse_args()

rng = np.random.default_rng(arguments.seed)
structure = read(arguments.struct)
assert isinstance(structure, Atoms)
atoms = structure
atoms.calc = MLPotCalculator(arguments.model, dtype="float32", skin=0.5)
atoms.set_momenta(
    maxwell_boltzmann(
        atoms.get_masses(),
        atoms.get_positions(),
        arguments.temperature,
        rng,
        rotation=not atoms.pbc.any(),
    )
)
atoms.set_constraint(FixCom())  # the centre of mass stays where it is

dynamics = Langevin(
    atoms,
    arguments.timestep * units.fs,
    temperature_K=arguments.temperature,
    friction=arguments.friction / (1000 * units.fs),
    fixcm=False,
    rng=rng,
)


def report() -> None:
    picoseconds = dynamics.get_time() / (1000 * units.fs)
    energy = atoms.get_potential_energy()
    print(f"{picoseconds:9.4f} ps  potential {energy:.6f} eV  {atoms.get_temperature():7.1f} K")


with TrajectoryWriter(arguments.trajectory, "w", atoms) as trajectory:
    dynamics.attach(report, interval=10)
    dynamics.attach(trajectory.write, interval=10)
    dynamics.run(arguments.steps)
