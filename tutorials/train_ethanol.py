"""Train a potential for the ethanol molecule and see how wrong it is.

    python tutorials/train_ethanol.py           some minutes
    python tutorials/train_ethanol.py --small   seconds, with far larger errors

Ends in the picture ethanol.png: predictions against labels for frames that training has not seen.
The `# %%` lines make cells in editors that know them (VS Code, Spyder, PyCharm).
"""

# %% What is imported, and what can be chosen
import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from mlpot import datasets, training
from mlpot.training import TrainConfig

ROOT = Path(__file__).resolve().parents[1]

parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
)
parser.add_argument("--small", action="store_true", help="less of everything: seconds")
parser.add_argument("--out", type=Path, default=ROOT / "runs/tutorials/train_ethanol")
arguments = parser.parse_args()
small, out = arguments.small, arguments.out
out.mkdir(parents=True, exist_ok=True)

# %% The data
# 600 frames of ethanol at 300 K, 600 at 600 K, with energies and forces of GFN2-xTB, and the three
# isolated atoms, whose energies are the zero of each element (E0). datasets/README.md says more.
frames = datasets.read([ROOT / "datasets/ethanol.h5"])
print(datasets.summary(frames))

# Frames for the test are put aside before training sees anything: every eighth one. mlpot takes
# further frames for validation out of the rest by itself (valid_fraction).
atoms = [frame for frame in frames if frame.is_isolated_atom]
molecules = [frame for frame in frames if not frame.is_isolated_atom]
test, rest = molecules[::8], [frame for n, frame in enumerate(molecules) if n % 8]
if small:
    test, rest = test[::5], rest[::8]
datasets.write(out / "train.h5", [*atoms, *rest])
datasets.write(out / "test.h5", test)

# %% The configuration
# The same keys as in a YAML file for `mlpot train`; models/ethanol.yaml is one. v2106 is a network
# of equivariant convolutions: features are vectors and tensors up to degree lmax, so that turning
# the molecule turns the forces with it, exactly and without data for it.
config = TrainConfig.model_validate(
    {
        "train_file": str(out / "train.h5"),
        "test_file": str(out / "test.h5"),
        "out": str(out / "run"),
        "seed": 1,
        "r_max": 5.0,  # Angstrom: every atom of ethanol sees every other
        "model": {
            "name": "v2106",
            "channels": 8 if small else 16,
            "layers": 2,
            "lmax": 1 if small else 2,
            "radial_neurons": [64],
        },
        "batch_size": 8,
        "max_num_epochs": 25,
        "ema_decay": 0.9 if small else 0.99,  # an average over about 10 or 100 steps
        "lr": 0.01,
        # Nine atoms give 27 force components and one energy, so most is learnt from forces.
        "energy_weight": 10.0,
        "forces_weight": 10.0,
    }
)

# %% Training
# The folder of the run gets best.safetensors (the model with the smallest validation loss),
# metrics.csv (a row for each epoch) and report.html. A run that was interrupted goes on with
# `mlpot resume`.
run = training.train(config, overwrite=True)
print(f"trained: {run.reason}; {run.folder.best}")

# %% Errors
# The row to compare with is that of a model that knows the mean energy only and says that no force
# acts: its force error is the size of the forces.
said = training.predict(run.potential, test)
row, *_, nothing = training.compare("test", test, said)
print(f"energy RMSE {row.rmse['energy']:.2f} meV/atom; the mean alone {nothing.rmse['energy']:.2f}")
print(f"force RMSE {row.rmse['forces']:.1f} meV/Å; no forces {nothing.rmse['forces']:.1f}")

# %% The picture
# Colours are temperatures: the hotter frames reach farther, and their errors are larger.
figure = Figure(figsize=(9, 4.2), layout="constrained")
left, right = figure.subplots(1, 2)
for kind, colour in (("MD_300K", "tab:blue"), ("MD_600K", "tab:red")):
    these = [n for n, frame in enumerate(test) if frame.config_type == kind]
    true = np.array([test[n].energy - said.reference[n] for n in these])
    guess = np.array([said.energy[n] - said.reference[n] for n in these])
    left.plot(true, guess, ".", color=colour, label=kind)
    true = np.concatenate([np.asarray(test[n].forces).ravel() for n in these])
    guess = np.concatenate([np.ravel(said.forces[n]) for n in these])
    right.plot(true, guess, ".", color=colour, markersize=3, alpha=0.5)
for axes, what in ((left, "energy without that of the atoms (eV)"), (right, "force (eV/Å)")):
    low, high = axes.get_xlim()
    axes.plot([low, high], [low, high], color="0.4", linewidth=0.8, zorder=0)
    axes.set_xlabel(f"GFN2-xTB: {what}")
    axes.set_ylabel("potential")
left.legend(frameon=False)
left.set_title(f"RMSE {row.rmse['energy']:.2f} meV/atom")
right.set_title(f"RMSE {row.rmse['forces']:.1f} meV/Å")
figure.savefig(out / "ethanol.png", dpi=120)
print(out / "ethanol.png")
