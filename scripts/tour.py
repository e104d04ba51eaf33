"""The steps of ./scripts/quickstart: commands that anybody could type, with an estimate of time."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

RUN = "runs/quickstart"
MODEL = f"{RUN}/copper/best.safetensors"


@dataclass(frozen=True)
class Step:
    """One command of the tour.

    Attributes:
        title: what it shows.
        command: words of the command line.
        seconds: duration on two slow cores, for the estimate.
    """

    title: str
    command: list[str]
    seconds: float


STEPS = [
    Step(
        "Look at this machine, and compile kernels for it the first time",
        ["mlpot", "doctor", "--build"],
        60,
    ),
    Step(
        "Train a potential for copper on energies, forces and stresses",
        ["mlpot", "train", "models/copper.yaml", "--out", f"{RUN}/copper"],
        150,
    ),
    Step(
        "Its errors on all data, kind by kind",
        ["mlpot", "eval", MODEL, "datasets/copper.h5", "--out", f"{RUN}/errors"],
        10,
    ),
    Step(
        "Build a crystal of 108 atoms with ASE",
        shlex.split(f"ase build -x fcc -a 3.6 --cubic -r 3,3,3 Cu {RUN}/crystal.extxyz"),
        3,
    ),
    Step(
        "Molecular dynamics, the potential as an ASE calculator",
        shlex.split(
            f"mlpot md --model {MODEL} --struct {RUN}/crystal.extxyz --out {RUN}/md"
            " --ensemble langevin --temperature 600 --timestep 2 --steps 300"
        ),
        20,
    ),
    Step(
        "Build the primitive cell",
        shlex.split(f"ase build -x fcc -a 3.6 Cu {RUN}/copper.extxyz"),
        3,
    ),
    Step(
        "Phonons from exact second derivatives",
        shlex.split(
            f"mlpot phonons --model {MODEL} --struct {RUN}/copper.extxyz --supercell 4 4 4"
            f" --out {RUN}/phonons"
        ),
        20,
    ),
]


def minutes(seconds: float) -> str:
    """Readable duration: 95 -> "1:35"."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def run(step: Step) -> None:
    """Run a step and leave with its exit code if it fails."""
    program = Path(sys.executable).parent / step.command[0]
    result = subprocess.run([str(program), *step.command[1:]], check=False)
    if result.returncode:
        print(f"\nThis step failed (exit code {result.returncode}).", file=sys.stderr)
        sys.exit(result.returncode)


def main() -> None:
    """Run all steps and say where their results are."""
    folder = Path(RUN)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    start = time.monotonic()
    pace = 1.0
    for number, step in enumerate(STEPS, 1):
        began = time.monotonic()
        left = pace * sum(s.seconds for s in STEPS[number - 1 :])
        print(f"\n[{number}/{len(STEPS)}] {step.title}", end="")
        print(f"   ({minutes(began - start)} so far, about {minutes(left)} to go)")
        print(f"      $ {shlex.join(step.command)}", flush=True)
        run(step)
        if step.command[:2] == ["mlpot", "train"]:
            # The rest is as much faster or slower than planned as training has been.
            pace = (time.monotonic() - began) / step.seconds
    print(f"\nDone in {minutes(time.monotonic() - start)} minutes. Look at:")
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".html", ".png"):
            print(f"  {path}")
    print(f"The trained potential: {MODEL}")


if __name__ == "__main__":
    main()
