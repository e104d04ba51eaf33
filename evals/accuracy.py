"""Trains the configurations of docs/accuracy.md in pieces of limited time, several at once.

    python evals/accuracy.py models/acac.yaml models/silicon.yaml --data DATA --work runs/accuracy
    python evals/accuracy.py ... --seconds 540 --gpus 2     # again: each goes on where it stopped

DATA holds the data files that the configurations name, in any folder below, compressed or not. Each
run has the folder WORK/NAME; one that is out of time is interrupted, which saves it. Test files are
evaluated by the run itself, once, at its end. WORK/accuracy.json has the time spent and the errors.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from benchmark.environment import this_run

from mlpot.files import atomic_write
from mlpot.training.run_folder import read_rows

MLPOT = [sys.executable, "-c", "from mlpot.cli.app import main; main()"]
FILES = ("train_file", "valid_file", "test_file")


@dataclass
class Run:
    """A configuration, its folder, and the process that trains it now."""

    config: Path
    folder: Path
    epochs: int
    pieces: list[float] = field(default_factory=list)
    process: subprocess.Popen | None = None
    begun: float = 0.0

    def start(self, gpu: int | None) -> None:
        stopped = (self.folder / "last.safetensors").exists()
        verb = ["resume", str(self.folder)] if stopped else ["train", str(self.config)]
        place = {} if gpu is None else {"CUDA_VISIBLE_DEVICES": str(gpu)}
        log = open(self.config.with_suffix(".log"), "a")  # noqa: SIM115
        self.begun = time.monotonic()
        self.process = subprocess.Popen(
            [*MLPOT, *verb], env=os.environ | place, stdout=log, stderr=subprocess.STDOUT
        )

    def running(self) -> bool:
        """Whether it still trains; the time of a piece is kept when it ends."""
        if self.process is None:
            return False
        if self.process.poll() is None:
            return True
        self.pieces.append(round(time.monotonic() - self.begun, 1))
        if self.process.returncode not in (0, -2, 130):
            print(f"{self.config.stem} ended with {self.process.returncode}: see its .log")
        self.process = None
        return False

    def interrupt(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGINT)

    def rows(self) -> list[dict[str, str]]:
        path = self.folder / "metrics.csv"
        return read_rows(path) if path.exists() else []

    def finished(self) -> bool:
        return (self.folder / "report.html").exists()

    def found(self) -> dict:
        """What there is to say of it: time, epochs, errors of validation and of the tests."""
        rows, errors = self.rows(), self.folder / "errors.json"
        best = min(rows, key=lambda row: float(row["valid_loss"] or "inf")) if rows else {}
        return {
            "seconds": sum(self.pieces),
            "pieces": self.pieces,
            "epochs": len(rows),
            "finished": self.finished(),
            "best": {k: float(v) for k, v in best.items() if v and not k.startswith("train")},
            "errors": json.loads(errors.read_text()) if errors.exists() else None,
        }

    def line(self) -> str:
        rows = self.rows()
        if not rows:
            return f"{self.config.stem}: begins"
        done, seconds = rows[-1], sum(self.pieces)
        if self.process is not None:
            seconds += time.monotonic() - self.begun
        epoch = int(float(done["epoch"]))
        recent = [float(row["seconds"]) for row in rows[-6:]]
        each = (recent[-1] - recent[0]) / max(1, len(recent) - 1)
        numbers = " ".join(
            f"{name.removeprefix('valid_')} {1e3 * float(done[name]):.3g}"
            for name in ("valid_energy_rmse", "valid_forces_rmse", "valid_forces_mae")
            if done.get(name)
        )
        return (
            f"{self.config.stem}: epoch {epoch}/{self.epochs}, {each:.2f} s an epoch, "
            f"{each * (self.epochs - epoch):.0f} s to go; {numbers} (meV); {seconds:.0f} s"
        )


def find(name: str, data: Path) -> Path:
    """A data file by its name in a configuration, compressed or not, in any folder below.

    A folder in the name counts: files of other data sets may have the same name.
    """
    names = (name, f"{name}.gz")
    found = [data / n for n in names if (data / n).is_file()]
    found += sorted(path for n in names for path in data.rglob(n))
    if not found:
        raise SystemExit(f"{name} is not below {data}: give the folder of the data with --data")
    if len(found) > 1 and (data / name) not in found and (data / names[1]) not in found:
        raise SystemExit(f"{name} may be {' or '.join(map(str, found))}: put one to {data / name}")
    return found[0]


def prepare(config: Path, data: Path, work: Path) -> Run:
    """The configuration and its data files in the folder of the work."""
    text = config.read_text()
    keys = yaml.safe_load(text)
    for key in FILES:
        names = keys.get(key) or []
        for name in [names] if isinstance(names, str) else names:
            target = work / name
            if target.exists():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            source = find(name, data)
            packed = source.suffix == ".gz" and not name.endswith(".gz")
            with (gzip.open if packed else open)(source, "rb") as old, atomic_write(target) as new:
                shutil.copyfileobj(old, new)
    folder = work / config.stem
    keys["out"] = str(folder.resolve())
    copy = work / config.name
    if not copy.exists():
        copy.write_text(yaml.safe_dump(keys, sort_keys=False))
    return Run(copy, folder, keys.get("max_num_epochs", 200))


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("configs", nargs="+", type=Path)
    parser.add_argument("--data", type=Path, required=True, help="folder of the data files")
    parser.add_argument("--work", type=Path, default=Path("runs/accuracy"))
    parser.add_argument("--seconds", type=float, default=540.0, help="of this piece")
    parser.add_argument("--gpus", type=int, default=0, help="runs are dealt out to so many")
    parser.add_argument("--at-once", type=int, help="runs at the same time; all by default")
    arguments = parser.parse_args()
    work: Path = arguments.work
    work.mkdir(parents=True, exist_ok=True)
    record = work / "accuracy.json"
    earlier = json.loads(record.read_text())["runs"] if record.exists() else {}
    runs = [prepare(config, arguments.data, work) for config in arguments.configs]
    for run in runs:
        run.pieces = earlier.get(run.config.stem, {}).get("pieces", [])
    waiting = [run for run in runs if not run.finished()]
    limit = time.monotonic() + arguments.seconds
    at_once = arguments.at_once or len(waiting)
    lanes: list[Run | None] = [None] * at_once
    told = 0.0
    about = this_run()

    def keep() -> None:
        with atomic_write(record, "w") as file:
            json.dump({"about": about, "runs": earlier | {r.config.stem: r.found() for r in runs}},
                      file, indent=1)  # fmt: skip

    while time.monotonic() < limit:
        for i, lane in enumerate(lanes):
            if (lane is None or not lane.running()) and waiting:
                lanes[i] = run = waiting.pop(0)
                run.start(i % arguments.gpus if arguments.gpus else None)
        active = [lane for lane in lanes if lane is not None and lane.running()]
        if not active and not waiting:
            break
        if time.monotonic() > told + 20:
            told = time.monotonic()
            print("\n".join(lane.line() for lane in active), flush=True)
            keep()
        time.sleep(0.5)
    for run in runs:
        run.interrupt()
    patience = time.monotonic() + 60
    while [run for run in runs if run.running()] and time.monotonic() < patience:
        time.sleep(0.2)
    keep()
    for run in runs:
        print(run.line(), "finished" if run.finished() else "to be gone on with")


if __name__ == "__main__":
    main()
