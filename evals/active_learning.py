"""Which frames to label next: `mlpot select` beside a choice at random and by disagreement alone.

    python evals/active_learning.py --out evals/results/active_learning.json
    python evals/active_learning.py --copies 10 --out evals/results/active_learning_copies.json

A committee is trained on a few frames of ethanol at 300 K. From a pool at 300 and 600 K, most of it
alike, frames are then chosen in three ways and their labels added; new committees are trained and
tested on frames that nobody saw. --copies makes the pool as a trajectory written too often is: each
frame comes several times, moved by 0.0001 Angstrom (far below what changes labels). Errors are
those of the mean of the members.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np
import yaml

from mlpot import datasets, training
from mlpot.datasets import Frame
from mlpot.training import load_config

ROOT = Path(__file__).resolve().parents[1]
SETTINGS = {
    "r_max": 4.5,
    "model": {"channels": 8, "layers": 1, "lmax": 1},
    "batch_size": 4,
    "valid_fraction": 0.1,
    "lr": 0.02,
    "n_models": 3,
    "device": "cpu",
}
STEPS = 600  # of each training, whatever the number of frames


def committee(frames: list[Frame], folder: Path, seed: int) -> list:
    folder.mkdir()
    datasets.write(folder / "train.h5", frames)
    n_steps = -(-len(frames) * 9 // 10 // SETTINGS["batch_size"])
    settings = SETTINGS | {"max_num_epochs": STEPS // n_steps, "seed": 10 * seed}
    settings |= {"train_file": "train.h5", "out": str(folder / "run")}
    (folder / "config.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    run = training.train(load_config(folder / "config.yaml"))
    return [member.potential for member in run.members]


def errors(members: list, frames: list[Frame]) -> dict[str, float]:
    """RMSE of force components of the mean, meV/Angstrom, by temperature; and the worst frame."""
    said = [training.predict(one, frames, 32) for one in members]
    mean, _ = training.combine(frames, said)
    per_frame = np.array(
        [np.mean((own - f.forces) ** 2) for own, f in zip(mean.forces, frames, strict=True)]
    )
    kinds = np.array([f.config_type for f in frames])
    found = {"all": per_frame.mean()} | {
        str(kind): per_frame[kinds == kind].mean() for kind in np.unique(kinds)
    }
    found |= {"worst frame": per_frame.max()}
    return {name: round(float(1e3 * np.sqrt(value)), 1) for name, value in found.items()}


def one_round(seed: int, count: int, copies: int, folder: Path) -> dict:
    everything = datasets.read(ROOT / "datasets" / "ethanol.h5")
    isolated = [f for f in everything if f.is_isolated_atom]
    rng = np.random.default_rng(seed)
    cold = [f for f in everything if f.config_type == "MD_300K"]
    hot = [f for f in everything if f.config_type == "MD_600K"]
    cold, hot = ([frames[i] for i in rng.permutation(len(frames))] for frames in (cold, hot))
    first, pool, test = cold[:count], cold[count:400] + hot[:60], cold[400:500] + hot[60:360]
    pool = [
        frame.replace(positions=frame.positions + rng.normal(0, 1e-4, frame.positions.shape))
        if number
        else frame
        for frame in pool
        for number in range(copies)
    ]
    members = committee([*first, *isolated], folder / f"first{seed}", seed)
    result = {"before": errors(members, test)}
    both = training.select(members, pool, count, labelled=first)
    chosen = {
        "select": both.index,
        "disagreement alone": np.argsort(-both.disagreement)[:count].tolist(),
        "at random": rng.choice(len(pool), count, replace=False).tolist(),
    }
    for name, index in chosen.items():
        more = [pool[i] for i in index]
        place = folder / f"{name.replace(' ', '-')}{seed}"
        result[name] = errors(committee([*first, *more, *isolated], place, seed), test)
        result[name]["different frames"] = len({i // copies for i in index})
        result[name]["at 600 K"] = sum(frame.config_type == "MD_600K" for frame in more)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--count", type=int, default=20, help="frames at first, and added")
    parser.add_argument("--copies", type=int, default=1, help="of each frame in the pool")
    parser.add_argument("--out")
    given = parser.parse_args()
    rounds = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(given.seeds):
            rounds.append(one_round(seed, given.count, given.copies, Path(folder)))
            print(json.dumps(rounds[-1]), flush=True)
    means = {
        name: {
            key: round(float(np.mean([one[name][key] for one in rounds])), 1)
            for key in rounds[0][name]
        }
        for name in rounds[0]
    }
    result = {
        "quantity": "RMSE of force components on 400 test frames, meV/Angstrom",
        "frames at first and added": given.count,
        "copies": given.copies,
        "settings": SETTINGS | {"steps": STEPS},
        "means": means,
        "rounds": rounds,
    }
    text = json.dumps(result, indent=1)
    print(text)
    if given.out:
        Path(given.out).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
