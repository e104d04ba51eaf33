"""Training runs that are killed at random moments: resumed, they must end with the same bits.

    python evals/kills.py --kills 20 --out evals/results/kills-cpu.json

One run of 400 steps is left alone. Others of the same configuration get SIGKILL or SIGTERM at a
random moment, before, during or after training, are resumed (and killed again, now and then), and
compared with the first: every array of the last checkpoint and every byte of the best model.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import mlx.core as mx
import numpy as np
import yaml
from benchmark.environment import this_run

CONFIG = {
    "train_file": "frames.h5",
    "r_max": 4.5,
    "model": {"name": "v2106", "channels": 4, "layers": 1, "lmax": 1, "radial_neurons": [16]},
    "valid_fraction": 0.2,
    "batch_size": 2,
    "max_num_epochs": 20,
    "device": "cpu",
    "save_minutes": 0.005,
}


def write_data(folder: Path, source: Path, n_frames: int) -> None:
    """A few frames of a data set, and the isolated atoms."""
    from mlpot import datasets

    frames = datasets.read(source)
    alone = [frame for frame in frames if frame.is_isolated_atom]
    others = [frame for frame in frames if not frame.is_isolated_atom]
    datasets.write(folder / "frames.h5", [*others[:: len(others) // n_frames][:n_frames], *alone])


def start(folder: Path, *words: str) -> subprocess.Popen:
    """``mlpot`` in a process of its own."""
    command = [sys.executable, "-m", "mlpot.cli.app", *words]
    return subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


def finish(process: subprocess.Popen) -> None:
    """Wait for the end of a process that has to succeed."""
    _, errors = process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"exit code {process.returncode}: {errors}")


def disturbed(folder: Path, name: str, rng: random.Random, again: float) -> list:
    """A run that is killed at least once; returns signals and the steps that were saved.

    Args:
        folder: with the data and the configuration.
        name: of the run's folder.
        rng: chooses signals and moments, evenly over the epochs.
        again: chance that a resumed run is killed, too.
    """
    run, kills = folder / name, []
    n_epochs = yaml.safe_load((folder / "config.yaml").read_text())["max_num_epochs"]
    process = start(folder, "train", "config.yaml", "--out", name)
    while True:
        number = rng.choice([signal.SIGKILL, signal.SIGTERM])
        wait_for(run, rng.randint(epochs(run), n_epochs), process)
        time.sleep(rng.uniform(0.0, 0.3))
        if process.poll() is None:
            process.send_signal(number)
            process.communicate()
            kills.append([signal.Signals(number).name, saved_step(run)])
        elif process.returncode != 0:
            finish(process)
        if not (run / "last.safetensors").exists():  # killed before anything was written
            process = start(folder, "train", "config.yaml", "--out", name, "--overwrite")
        elif kills and rng.random() >= again:
            finish(start(folder, "resume", name))
            return kills
        else:
            process = start(folder, "resume", name)


def epochs(run: Path) -> int:
    """Epochs that are written down."""
    path = run / "metrics.csv"
    return path.read_text(encoding="utf-8").count("\n") - 1 if path.exists() else 0


def wait_for(run: Path, epoch: int, process: subprocess.Popen) -> None:
    """Wait until so many epochs are written down, or the process has ended."""
    while process.poll() is None and epochs(run) < epoch:
        time.sleep(0.01)


def saved_step(run: Path) -> int | None:
    """Step of the last checkpoint, None where there is none."""
    from mlpot.training.checkpoint import read_checkpoint

    if not (run / "last.safetensors").exists():
        return None
    return read_checkpoint(run / "last.safetensors").progress["step"]


def differences(one: Path, other: Path) -> list[str]:
    """What differs between the ends of two runs."""
    from mlpot.training.checkpoint import read_checkpoint

    found = []
    a, b = (read_checkpoint(run / "last.safetensors") for run in (one, other))
    with mx.stream(mx.cpu):
        for name in sorted({*a.arrays, *b.arrays}):
            pair = [np.array(c.arrays[name]).tobytes() if name in c.arrays else b"" for c in (a, b)]
            if pair[0] != pair[1]:
                found.append(name)
    if (one / "best.safetensors").read_bytes() != (other / "best.safetensors").read_bytes():
        found.append("best.safetensors")
    leftovers = [file.name for file in other.iterdir() if file.name.startswith(".")]
    return found + leftovers


def experiment(
    folder: Path, n_kills: int, seed: int = 0, again: float = 0.25, **changes
) -> dict[str, object]:
    """Runs in a folder that holds ``frames.h5``.

    Args:
        folder: where all happens.
        n_kills: how many there are to be at least.
        seed: of signals and moments.
        again: chance that a resumed run is killed, too.
        changes: of the configuration.

    Returns:
        Steps, kills (signal, step saved by then, None before the first), and what differed.
    """
    (folder / "config.yaml").write_text(yaml.safe_dump(CONFIG | changes), encoding="utf-8")
    rng = random.Random(seed)
    finish(start(folder, "train", "config.yaml", "--out", "whole"))
    kills, different = [], []
    number = 0
    while len(kills) < n_kills:
        name = f"disturbed-{number}"
        kills += disturbed(folder, name, rng, again)
        different += [f"{name}: {what}" for what in differences(folder / "whole", folder / name)]
        shutil.rmtree(folder / name)
        number += 1
    return {
        "steps": saved_step(folder / "whole"),
        "runs": number,
        "kills": kills,
        "different": different,
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=None, help="JSON file for what came out.")
    arguments = parser.parse_args()
    source = Path(__file__).parents[1] / "datasets" / "ethanol.h5"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_data(folder, source, 50)
        found = experiment(folder, arguments.kills, arguments.seed)
    found |= {"about": this_run(), "mlx": mx.__version__, "seed": arguments.seed}
    rows = ",\n  ".join(json.dumps(kill) for kill in found.pop("kills"))
    text = json.dumps(found, indent=1)[:-2] + f',\n "kills": [\n  {rows}\n ]\n}}'
    print(text)
    if arguments.out is not None:
        arguments.out.write_text(text + "\n", encoding="utf-8")
    sys.exit(1 if found["different"] else 0)


if __name__ == "__main__":
    main()
