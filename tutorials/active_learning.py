"""Active learning: a committee of potentials finds what it does not know, and asks for labels.

    python tutorials/active_learning.py          about half an hour on two CPU cores
    python tutorials/active_learning.py --small  seconds

Ends in the picture active_learning.png: disagreement against true error, and errors by round.
"""

# %% What is imported, and what can be chosen
import argparse
from pathlib import Path

import numpy as np
from ase import Atoms
from ase.build import bulk
from ase.calculators.emt import EMT
from ase.io import read
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
parser.add_argument("--out", type=Path, default=ROOT / "runs/tutorials/active_learning")
arguments = parser.parse_args()
small, out = arguments.small, arguments.out
out.mkdir(parents=True, exist_ok=True)
members, picked, temperature = 3, 8 if small else 20, 900.0


# %% The method that labels
# ASE's EMT is cheap, so that this tutorial is; with density functional theory each label would
# take minutes or hours, which is why they have to be chosen well.
def label(atoms: Atoms) -> datasets.Frame:
    """A frame with EMT's energy, forces and stress."""
    atoms = atoms.copy()
    atoms.set_constraint()
    atoms.calc = EMT()
    return datasets.Frame(
        atoms.numbers, atoms.positions, atoms.cell.array, atoms.pbc,
        energy=atoms.get_potential_energy(), forces=atoms.get_forces(),
        stress=atoms.get_stress(voigt=False),
    )  # fmt: skip


def rattled(n_frames: int, width: float, seed: int) -> list[Atoms]:
    """Crystals of 32 atoms with random displacements (Angstrom)."""
    crystal, rng = bulk("Cu", cubic=True, a=3.62) * (2, 2, 2), np.random.default_rng(seed)
    frames = [crystal.copy() for _ in range(n_frames)]
    for frame in frames:
        frame.positions += width * rng.normal(size=(len(frame), 3))
    return frames


# %% What the first round knows
# Only cold crystals: displacements below a tenth of an Angstrom. E0 is that of EMT's atom.
lone = Atoms("Cu")
lone.calc = EMT()
E0 = {29: float(lone.get_potential_energy())}
known = [label(atoms) for atoms in rattled(16 if small else 60, 0.08, seed=1)]


# %% A committee
# The members differ by their seed only: first weights, order of frames, which ones validate.
# Where data are dense they agree, elsewhere each guesses in its own way.
def train_committee(name: str) -> MLPotCalculator:
    """Three potentials, trained on what is known, as one calculator."""
    datasets.write(out / f"{name}.h5", known)
    best = []
    for seed in range(members):
        config = TrainConfig.model_validate(
            {
                "train_file": str(out / f"{name}.h5"),
                "out": str(out / f"{name}-{seed}"),
                "seed": seed,
                "r_max": 4.6,
                "E0s": E0,
                "model": {"channels": 8, "layers": 1 if small else 2, "lmax": 1 if small else 2},
                "batch_size": 2,
                "max_num_epochs": 10 if small else 40,
                "ema_decay": 0.9,
                "energy_weight": 10.0,
            }
        )
        best.append(training.train(config, overwrite=True).folder.best)
    return MLPotCalculator(best)


# %% A test set that nobody trains on
# Hot crystals from molecular dynamics with EMT itself: what the potential is for.
def explore(atoms: Atoms, steps: int, seed: int, name: str) -> list[Atoms]:
    """Frames of a Langevin run at the temperature of interest."""
    run_md(
        atoms, "langevin", temperature=temperature, friction=20.0, timestep=4.0, steps=steps,
        seed=seed, log_interval=5, trajectory=out / f"{name}.traj", overwrite=True,
    )  # fmt: skip
    frames = read(out / f"{name}.traj", index="10:")
    assert isinstance(frames, list)
    return frames


start = bulk("Cu", cubic=True, a=3.66) * (2, 2, 2)
start.calc = EMT()
test = [label(atoms) for atoms in explore(start, 150 if small else 1000, 7, "test")]


def predict(committee: MLPotCalculator, atoms: Atoms) -> tuple[np.ndarray, np.ndarray]:
    """Mean forces and their standard deviations over the members, (n_atoms, 3) and (n_atoms,)."""
    committee.calculate(atoms, ["forces"])
    variance = np.asarray(committee.results["forces_var"])
    return np.asarray(committee.results["forces"]), np.sqrt(variance.sum(axis=1))


def judge(committee: MLPotCalculator) -> tuple[np.ndarray, np.ndarray, float]:
    """Largest disagreement and error in each test frame, RMSE of components; eV/Angstrom."""
    said = [predict(committee, frame.to_atoms()) for frame in test]
    off = np.array([forces - frame.forces for (forces, _), frame in zip(said, test, strict=True)])
    spread = np.array([spread.max() for _, spread in said])
    return spread, np.linalg.norm(off, axis=2).max(axis=1), float(np.sqrt(np.mean(off**2)))


# %% Rounds
# Train, run with the committee's mean, keep the frames of largest disagreement, label them, go on.
# Frames next to each other in time are alike: no two picked ones are neighbours in the trajectory.
errors, judged = [], []
for turn in range(1 if small else 4):
    committee = train_committee(f"round{turn}")
    judged.append(judge(committee))
    errors.append(judged[-1][2])
    print(f"round {turn}: {len(known)} labels, force RMSE on hot crystals {errors[-1]:.4f} eV/Å")
    start.calc = committee
    seen = explore(start, 150 if small else 500, turn, f"round{turn}")
    doubts = [float(predict(committee, atoms)[1].max()) for atoms in seen]
    chosen: list[int] = []
    for n in np.argsort(doubts)[::-1]:
        if len(chosen) < picked and all(abs(n - other) > 1 for other in chosen):
            chosen.append(int(n))
    worst = np.mean([doubts[n] for n in chosen])
    print(f"  disagreement {np.mean(doubts):.3f} eV/Å; of the {len(chosen)} picked {worst:.3f}")
    known += [label(seen[n]) for n in chosen]

# %% Did it help?
# Errors fall with the new labels. Whether choosing did it, or labels at 900 K of any kind, shows a
# second committee that is given as many frames at random: try it.
judged.append(judge(train_committee("last")))
errors.append(judged[-1][2])
print(f"at last: {len(known)} labels, force RMSE on hot crystals {errors[-1]:.4f} eV/Å")

# %% The picture
figure = Figure(figsize=(9, 4.0), layout="constrained")
left, right = figure.subplots(1, 2)
left.loglog(*judged[0][:2], ".", color="tab:red", label="first committee")
left.loglog(*judged[-1][:2], ".", color="tab:blue", label="last committee")
left.set_xlabel("largest disagreement in a frame (eV/Å)")
left.set_ylabel("largest error in a frame (eV/Å)")
left.legend(frameon=False)
right.plot(errors, "o-", color="black")
right.set_xticks(range(len(errors)))
right.set_ylim(bottom=0)
right.set_xlabel("round")
right.set_ylabel("force RMSE (eV/Å)")
figure.savefig(out / "active_learning.png", dpi=120)
print(out / "active_learning.png")
