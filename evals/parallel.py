"""Training by several processes beside one: the same loss curve, and how much faster.

    python evals/parallel.py --processes 2 --backend nccl --out evals/results/parallel-nccl.json

Runs `mlpot train` on the shipped ethanol data once in one process and once in several with the same
batches, and compares every number of metrics.csv. --backend ring joins processes on this machine's
CPUs (or Macs by --hostfile), nccl its NVIDIA GPUs, one each. Sums in another order round otherwise,
and training lets such differences grow: float32 runs part after some hundred steps, float64 runs
(on CPUs) stay together. Seconds are those of training with validation, without the first epoch.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml
from benchmark.environment import this_run

ROOT = Path(__file__).resolve().parents[1]


def configuration(given: argparse.Namespace) -> dict:
    return {
        "train_file": str(Path(given.data).resolve()),
        "r_max": 4.5,
        "model": {"channels": given.channels, "layers": 2, "lmax": 2},
        "batch_size": given.batch_size,
        "max_num_epochs": given.epochs,
        "lr": 0.005,
        "seed": 0,
        "dtype": given.dtype,
        "device": "gpu" if given.backend == "nccl" else "auto",
    }


def launch(given: argparse.Namespace, processes: int, config: Path, out: Path) -> float:
    program = [sys.executable, "-m", "mlpot.cli.app", "train", str(config), "--out", str(out)]
    if processes > 1:
        launcher = [str(Path(sys.executable).with_name("mlx.launch")), "--backend", given.backend]
        hosts = ["--hostfile", given.hostfile] if given.hostfile else ["-n", str(processes)]
        program = [*launcher, *hosts, "--", *program]
    began = time.perf_counter()
    done = subprocess.run(
        program, stdin=subprocess.DEVNULL, text=True, capture_output=True, check=False
    )
    if not (out / "report.html").exists():
        sys.exit(f"{' '.join(program)}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return time.perf_counter() - began


def rows(run: Path) -> list[dict[str, float]]:
    with open(run / "metrics.csv", newline="", encoding="utf-8") as file:
        return [{k: float(v) for k, v in row.items() if v} for row in csv.DictReader(file)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--backend", default="ring")
    parser.add_argument("--hostfile")
    parser.add_argument("--data", default=str(ROOT / "datasets" / "ethanol.h5"))
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--channels", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument(
        "--dtype", default="float32", help="float64 (CPU) leaves no rounding to grow"
    )
    parser.add_argument("--out")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.yaml"
        config.write_text(yaml.safe_dump(configuration(given)), encoding="utf-8")
        walls, metrics = [], []
        for processes in (1, given.processes):
            run = Path(folder) / f"run{processes}"
            walls.append(launch(given, processes, config, run))
            metrics.append(rows(run))
    one, several = metrics
    differences = {
        name: max(abs(b[name] - a[name]) / abs(a[name]) for a, b in zip(one, several, strict=True))
        for name in one[0]
        if name not in ("seconds", "epoch", "step", "lr")
    }
    epochs = [row[-1]["seconds"] - row[0]["seconds"] for row in metrics]
    import mlx.core as mx

    result = {
        "about": this_run(),
        "mlx": mx.__version__,
        "processes": given.processes,
        "backend": given.backend,
        "configuration": configuration(given) | {"train_file": Path(given.data).name},
        "largest relative difference": max(differences.values()),
        "relative differences": differences,
        "seconds of the later epochs": epochs,
        "speed-up": epochs[0] / epochs[1],
        "wall seconds": walls,
        "valid_loss of one": [row["valid_loss"] for row in one],
        "valid_loss of several": [row["valid_loss"] for row in several],
    }
    text = json.dumps(result, indent=1)
    print(text)
    if given.out:
        Path(given.out).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
