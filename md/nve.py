"""Constant-energy dynamics with plain ASE and the calculator: copy it and change it."""

import argparse

import numpy as np
from ase import Atoms, units
from ase.io import read
from ase.io.trajectory import TrajectoryWriter
from ase.md.verlet import VelocityVerlet

from mlpot.calculators import MLPotCalculator
from mlpot.md import maxwell_boltzmann

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("model", help="potential, .safetensors")
parser.add_argument("struct", help="structure, any format that ASE reads")
parser.add_argument("--temperature", type=float, default=300.0, help="K")
parser.add_argument("--timestep", type=float, default=0.5, help="fs")
parser.add_argument("--steps", type=int, default=1000)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--trajectory", default="nve.traj")
arguments = parser.parse_args()

structure = read(arguments.struct)
assert isinstance(structure, Atoms)
atoms = structure
atoms.calc = MLPotCalculator(arguments.model, dtype="float32", skin=0.5)
atoms.set_momenta(
    maxwell_boltzmann(
        atoms.get_masses(),
        atoms.get_positions(),
        arguments.temperature,
        np.random.default_rng(arguments.seed),
        rotation=not atoms.pbc.any(),
    )
)

dynamics = VelocityVerlet(atoms, arguments.timestep * units.fs)
times, totals = [], []


def report() -> None:
    total = atoms.get_total_energy()
    times.append(dynamics.get_time() / (1000 * units.fs))
    totals.append(total)
    print(f"{times[-1]:9.4f} ps  total {total:.6f} eV  {atoms.get_temperature():7.1f} K")


with TrajectoryWriter(arguments.trajectory, "w", atoms) as trajectory:
    dynamics.attach(report, interval=10)
    dynamics.attach(trajectory.write, interval=10)
    dynamics.run(arguments.steps)

if len(times) > 2:
    slope = np.polyfit(times, np.array(totals) - totals[0], 1)[0]
    print(f"drift {slope * 1000 / len(atoms):.4g} meV/atom/ps")
