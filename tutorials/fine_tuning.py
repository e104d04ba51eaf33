"""Fine-tune a potential: a few expensive labels go on from what a cheap or universal model knows.

    python tutorials/fine_tuning.py          minutes; nequix-mp-1 where `mlpot fetch` has brought it
    python tutorials/fine_tuning.py --small  seconds, from a model that is trained on the spot

Ends in the picture fine_tuning.png: errors on test frames of the model that training starts from,
of one trained on the same few frames from nothing, and of the fine-tuned one.
"""

# %% What is imported, and what can be chosen
import argparse
from pathlib import Path

import mlx.core as mx
import numpy as np
from ase.calculators.morse import MorsePotential
from matplotlib.figure import Figure

import mlpot
from mlpot import datasets, io, training
from mlpot.training import TrainConfig

ROOT = Path(__file__).resolve().parents[1]
UNIVERSAL = "nequix-mp-1"

parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
)
parser.add_argument("--small", action="store_true", help="less of everything: seconds")
parser.add_argument("--model", help="what to go on from: a file or the name of a potential")
parser.add_argument("--out", type=Path, default=ROOT / "runs/tutorials/fine_tuning")
arguments = parser.parse_args()
small, out = arguments.small, arguments.out
out.mkdir(parents=True, exist_ok=True)

# %% The data: few labels
# Strained and rattled cells of copper. Let their labels (ASE's EMT) stand for expensive ones: only
# ten frames of them are used for training, sixty others for the test.
frames = [
    frame
    for frame in datasets.read([ROOT / "datasets/copper.h5"])
    if frame.config_type in ("strained_rattled", "rattled")
]
order = np.random.default_rng(0).permutation(len(frames))
test, few, rest = ([frames[n] for n in part] for part in (order[:60], order[60:70], order[70:190]))
datasets.write(out / "few.h5", few)


# %% What training goes on from
# Best is a universal potential, which has seen the elements in other company. Where there is none,
# a cheap method labels as many frames as one likes: here a Morse potential of pairs. Its
# forces are off by a seventh, its energies by more, but it knows what a crystal of copper is.
def train_cheap() -> Path:
    """A potential trained on labels of a Morse potential."""
    cheap = []
    for frame in rest:
        atoms = frame.to_atoms()
        atoms.calc = MorsePotential(epsilon=0.343, r0=2.75, rho0=1.359 * 2.75, rcut1=3.9, rcut2=4.5)
        cheap.append(
            datasets.Frame(
                frame.numbers, frame.positions, frame.cell, frame.pbc,
                energy=atoms.get_potential_energy(), forces=atoms.get_forces(),
                stress=atoms.get_stress(voigt=False),
            )
        )  # fmt: skip
    datasets.write(out / "cheap.h5", cheap)
    return train("cheap", cheap=True).folder.best


def train(name: str, cheap: bool = False, start_from: str | None = None) -> training.Run:
    """Train on cheap or few frames, from nothing or from a model."""
    keys: dict = {
        "train_file": str(out / ("cheap.h5" if cheap else "few.h5")),
        "valid_fraction": 0.1 if cheap else 0.2,
        "out": str(out / name),
        "seed": 1,
        "batch_size": 8 if cheap else 2,
        "max_num_epochs": 12 if cheap else 25,
        "ema_decay": 0.9,
        "energy_weight": 10.0,
        "stress_weight": 100.0,
    }
    if start_from is None:
        # A universal potential's network is too large for ten frames: this one is fairer.
        network = {"name": "v2106", "channels": 8, "layers": 2, "lmax": 2}
        keys |= {"r_max": 4.6, "model": network, "lr": 0.01}
    else:
        # Network, cutoff and repulsion are the model's. The zero of energy of each element is
        # fitted anew, as it differs between methods. A smaller rate keeps what is known.
        keys |= {"r_max": mlpot.load(start_from).cutoff, "start_from": start_from, "lr": 0.005}
    mx.random.seed(1)
    return training.train(TrainConfig.model_validate(keys), overwrite=True)


start = arguments.model
if start is None and not small:
    try:
        io.locate(UNIVERSAL)
        start = UNIVERSAL
    except FileNotFoundError as missing:
        print(f"{missing}\nSo this goes on from a model of a cheap method, trained now.")
start = start or str(train_cheap())
print(f"going on from {start}")

# %% Three models
# The first one is only given the right zero of energy: one number, the mean of what it is off by.
before, scratch, tuned = mlpot.load(start), train("scratch"), train("tuned", start_from=start)


def errors(potential) -> tuple[float, float]:
    """Root mean square errors for the test frames: energy (meV/atom), forces (meV/Å)."""
    said = training.predict(potential, test)
    off = np.array([said.energy[n] - (f.energy or 0.0) for n, f in enumerate(test)])
    per_atom = off / [frame.n_atoms for frame in test]
    if potential is before:
        per_atom = per_atom - per_atom.mean()
    row = training.compare("test", test, said)[0]
    return 1e3 * float(np.sqrt(np.mean(per_atom**2))), row.rmse["forces"]


table = {
    "before": errors(before),
    "from nothing": errors(scratch.potential),
    "fine-tuned": errors(tuned.potential),
}
for name, (energy, force) in table.items():
    print(f"{name}: energy RMSE {energy:.2f} meV/atom, force RMSE {force:.1f} meV/Å")

# %% The picture
figure = Figure(figsize=(8, 3.6), layout="constrained")
colours = ("0.6", "tab:orange", "tab:blue")
panels = figure.subplots(1, 2)
for axes, column, label in zip(
    panels, (0, 1), ("energy RMSE (meV/atom)", "force RMSE (meV/Å)"), strict=True
):
    bars = axes.bar(list(table), [row[column] for row in table.values()], color=colours)
    axes.bar_label(bars, fmt="%.3g")
    axes.set_ylabel(label)
figure.suptitle(f"{len(few)} labelled frames")
figure.savefig(out / "fine_tuning.png", dpi=120)
print(out / "fine_tuning.png")
