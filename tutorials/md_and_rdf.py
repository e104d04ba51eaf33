"""Molecular dynamics of copper: is energy conserved, and where are the neighbours?

    python tutorials/md_and_rdf.py --model best.safetensors     yours, or a published one
    python tutorials/md_and_rdf.py           trains one first: some minutes
    python tutorials/md_and_rdf.py --small   seconds

Ends in the picture rdf.png: energy conservation, and g(r) of the crystal at two temperatures.
"""

# %% What is imported, and what can be chosen
import argparse
from pathlib import Path

import numpy as np
from ase.build import bulk
from matplotlib.figure import Figure

from mlpot import datasets, training
from mlpot.calculators import MLPotCalculator
from mlpot.md import run_md
from mlpot.training import TrainConfig

ROOT = Path(__file__).resolve().parents[1]

parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
)
parser.add_argument("--small", action="store_true", help="less of everything: seconds")
parser.add_argument("--model", help="a potential that knows copper; one is trained by default")
parser.add_argument("--out", type=Path, default=ROOT / "runs/tutorials/md_and_rdf")
arguments = parser.parse_args()
small, out = arguments.small, arguments.out
out.mkdir(parents=True, exist_ok=True)


# %% The potential
# Any model file or published name does. Without one, a small network learns copper from the data
# that ship with mlpot: energies, forces and stresses of ASE's EMT, up to 1200 K.
def train_copper() -> Path:
    """A potential for copper from the shipped data."""
    frames = datasets.read([ROOT / "datasets/copper.h5"])
    if small:
        kinds = ("IsolatedAtom", "strained", "strained_rattled", "rattled")
        frames = [frame for frame in frames if frame.config_type in kinds]
    datasets.write(out / "copper.h5", frames)
    config = TrainConfig.model_validate(
        {
            "train_file": str(out / "copper.h5"),
            "out": str(out / "copper"),
            "seed": 1,
            "r_max": 4.6,
            "model": {"name": "v2106", "channels": 8, "layers": 1 if small else 2, "lmax": 2},
            "batch_size": 8,
            "max_num_epochs": 8 if small else 12,
            "ema_decay": 0.95,
            "lr": 0.01,
            "energy_weight": 1.0,
            "stress_weight": 100.0,
        }
    )
    return training.train(config, overwrite=True).folder.best


model = arguments.model or str(train_copper())

# %% The crystal
# A potential sees up to its cutoff (4.6 Å here); the skin makes the list of neighbours a little
# longer, so that it is good for many steps. float32 is what molecular dynamics needs.
atoms = bulk("Cu", cubic=True, a=3.62) * ((3, 3, 3) if small else (5, 5, 5))
atoms.calc = MLPotCalculator(model, dtype="float32", skin=0.5)
print(f"{len(atoms)} atoms, cutoff {atoms.calc.cutoff} Å")

# %% First: is energy conserved?
# Newton's equations alone ("nve") keep the total energy. What it drifts by tells whether the time
# step is short enough and the potential smooth. From a perfect crystal, half of the kinetic energy
# goes into the springs: velocities for 600 K end at 300 K.
steps = 100 if small else 2000
free = run_md(atoms, "nve", temperature=600.0, timestep=2.0, steps=steps, seed=1)
settled = free.column("temperature")[len(free.samples) // 2 :].mean()
print(f"total energy within {free.fluctuation:.4f} meV/atom, drift {free.drift:.3f} meV/atom/ps")
print(f"temperature from 600 K to {settled:.0f} K")

# %% Then: two temperatures
# A Langevin bath brings energy in and out until the temperature is its own. The first part of a
# run only gets there, so it is left out: the second run goes on with the velocities of the first,
# and its pair distances are what is drawn.
curves = {}
for temperature in (300.0, 900.0):
    warm = run_md(
        atoms, "langevin", temperature=2 * temperature, friction=20.0, timestep=2.0,
        steps=20 if small else 1000, seed=2,
    ).atoms  # fmt: skip
    warm.calc = atoms.calc
    sampled = run_md(
        warm, "langevin", temperature=temperature, friction=20.0, timestep=2.0,
        steps=200 if small else 4000, log_interval=5, seed=3, keep_velocities=True,
    )  # fmt: skip
    curves[temperature] = sampled.distances.curves()["Cu-Cu"]
    mean = sampled.column("temperature")[len(sampled.samples) // 4 :].mean()
    print(f"bath {temperature:.0f} K: mean temperature {mean:.0f} K")

# %% The radial distribution function
# g(r) is the density of atoms at a distance r from one of them, divided by the mean density. The
# first shell of an fcc crystal is at a/sqrt(2) and holds 12 atoms; heat broadens the shells.
centres, edges = free.distances.centres, free.distances.edges
volume = atoms.get_volume() / len(atoms)
shells = 4 / 3 * np.pi * np.diff(edges**3)
first = centres < 3.1
for temperature, curve in curves.items():
    around = float((curve * shells)[first].sum() / volume)
    top = centres[np.argmax(curve)]
    print(f"{temperature:.0f} K: peak {curve.max():.2f} at {top:.2f} Å, neighbours {around:.2f}")

# %% The picture
figure = Figure(figsize=(9, 4.0), layout="constrained")
left, right = figure.subplots(1, 2)
time = free.column("time") / 1000
change = (free.column("total") - free.column("total")[0]) * 1000 / len(atoms)
swing = (free.column("potential") - free.column("potential")[0]) * 1000 / len(atoms)
left.plot(time, swing, color="tab:orange", label="potential energy")
left.plot(time, change, color="black", label="total energy")
left.set_xlabel("time (ps)")
left.set_ylabel("change (meV/atom)")
left.legend(frameon=False)
for (temperature, curve), colour in zip(curves.items(), ("tab:blue", "tab:red"), strict=True):
    right.plot(centres, curve, color=colour, label=f"{temperature:.0f} K")
right.axvline(3.62 / 2**0.5, color="0.7", linestyle="--", linewidth=0.8)
right.axhline(1.0, color="0.7", linewidth=0.8)
right.set_xlim(1.8, edges[-1])
right.set_xlabel("distance (Å)")
right.set_ylabel("g(r)")
right.legend(frameon=False)
figure.savefig(out / "rdf.png", dpi=120)
print(out / "rdf.png")
