"""Vibrations and thermochemistry of ethanol.

    python tutorials/vibrations.py --model models/ethanol.safetensors   seconds: that is shipped
    python tutorials/vibrations.py           trains a potential first: some minutes
    python tutorials/vibrations.py --small   seconds, with a cruder potential

Ends in the picture vibrations.png: the vibrations, and the entropy of the gas by temperature.
"""

# %% What is imported, and what can be chosen
import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
from ase.build import molecule
from matplotlib.figure import Figure
from rich.console import Console

from mlpot import datasets, training, workflows
from mlpot.calculators import MLPotCalculator
from mlpot.training import TrainConfig

ROOT = Path(__file__).resolve().parents[1]
QUIET = Console(quiet=True)
J_PER_MOL = 96485.332  # of an eV

parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
)
parser.add_argument("--small", action="store_true", help="less of everything: seconds")
parser.add_argument("--model", help="a potential that knows ethanol; one is trained by default")
parser.add_argument("--out", type=Path, default=ROOT / "runs/tutorials/vibrations")
arguments = parser.parse_args()
small, out = arguments.small, arguments.out
out.mkdir(parents=True, exist_ok=True)


# %% The potential
# Vibrations are second derivatives at the minimum, so the data should surround the minimum, as
# frames at 300 K do. train_ethanol.py explains the rest.
def train_ethanol() -> Path:
    """A potential for ethanol from the shipped data."""
    frames = datasets.read([ROOT / "datasets/ethanol.h5"])
    if small:
        cold = [frame for frame in frames if frame.config_type == "MD_300K"]
        frames = [frame for frame in frames if frame.is_isolated_atom] + cold[::4]
    datasets.write(out / "ethanol.h5", frames)
    config = TrainConfig.model_validate(
        {
            "train_file": str(out / "ethanol.h5"),
            "out": str(out / "ethanol"),
            "seed": 1,
            "r_max": 5.0,
            "model": {"channels": 8 if small else 16, "layers": 2, "lmax": 1 if small else 2},
            "batch_size": 8,
            "max_num_epochs": 25,
            "ema_decay": 0.9 if small else 0.99,
            "energy_weight": 1.0,
        }
    )
    return training.train(config, overwrite=True).folder.best


model = arguments.model or str(train_ethanol())

# %% The vibrations
# The molecule is relaxed, the exact Hessian is computed in float64, divided by masses and
# diagonalised. Three translations and three rotations are projected out; how far from zero they
# were is a check. An imaginary mode would tell that the structure is no minimum.
calculator = MLPotCalculator(model, dtype="float64")
result = workflows.vibrations(molecule("CH3CH2OH"), calculator, console=QUIET)
print(result.table())
print(f"modes {len(result.frequencies)}, imaginary {result.imaginary}")
print(f"zero-point energy {result.zero_point_energy:.3f} eV")

# %% Are the second derivatives right?
# The same from finite differences of forces, as one would do with any calculator. Their error goes
# with the square of the displacement; exact derivatives have no displacement to choose.
for distance in (0.004, 0.0004):
    displaced = workflows.vibrations(
        result.atoms,
        calculator,
        relax=False,
        method="displacements",
        distance=distance,
        console=QUIET,
    )
    largest = np.abs(displaced.wavenumbers - result.wavenumbers).max()
    print(f"displaced by {distance} Å: off by at most {largest:.4f} 1/cm")

# %% Heat
# Ideal gas, rigid rotor, harmonic oscillators: enthalpy, entropy and Gibbs energy at any
# temperature, from the same frequencies. Ethanol's internal rotations are no small vibrations, and
# there are two more conformers, so the measured entropy is larger than this one.
temperatures = np.linspace(200, 1000, 41)
gas = [replace(result, temperature=float(t)).thermochemistry() for t in temperatures]
entropy = np.array([one.entropy for one in gas]) * J_PER_MOL
room = replace(result, temperature=298.15, pressure=1e5).thermochemistry().entropy * J_PER_MOL
print(f"entropy at 298.15 K and 1 bar {room:.1f} J/K/mol; measured 282")

# %% The picture
# A mode's height says how much of its motion is that of hydrogen, weighted with masses.
masses = result.atoms.get_masses()
hydrogen = result.atoms.numbers == 1
motion = masses[:, None] * result.modes**2
share = motion[:, hydrogen].sum(axis=(1, 2)) / motion.sum(axis=(1, 2))
figure = Figure(figsize=(9, 4.0), layout="constrained")
left, right = figure.subplots(1, 2, width_ratios=(3, 2))
left.vlines(result.wavenumbers, 0, share, color="tab:blue")
left.set_ylim(0, 1.05)
left.set_xlabel("wave number (1/cm)")
left.set_ylabel("part of hydrogen in the motion")
left.set_title(f"zero-point energy {result.zero_point_energy:.3f} eV")
right.plot(temperatures, entropy, color="tab:red")
right.plot([298.15], [282], "ok", label="measured")
right.set_xlabel("temperature (K)")
right.set_ylabel("entropy (J/K/mol)")
right.legend(frameon=False)
figure.savefig(out / "vibrations.png", dpi=120)
print(out / "vibrations.png")
