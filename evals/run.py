"""Times mlpot, with and without kernels, against e3nn on torch and other packages.

    python evals/run.py --preset smoke
    python evals/run.py --preset full --threads 2 --torch-python /path/to/python/with/e3nn
    python evals/run.py --device gpu --torch-python python3 --case convolution --out results

Every implementation has a process of its own; outputs are compared before anything is timed; and
repeats are interleaved, so that ratios hold on a machine that does other things too. See
docs/performance.md.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import shlex
import sys
import tempfile
from pathlib import Path

import numpy as np
from benchmark import cold, control, memory, report, timing
from benchmark.cases import NAMES, PHASES, chosen
from benchmark.crew import Crew, Machine
from benchmark.environment import describe
from benchmark.implementations import IMPLEMENTATIONS
from benchmark.inputs import draw
from benchmark.progress import Progress
from benchmark.summary import print_rows
from benchmark.timing import Plan

PLANS = {
    "smoke": Plan(least=3, most=3, seconds=0.5, call_seconds=0.002, limit=60),
    "full": Plan(least=5, most=25, seconds=20, call_seconds=0.05, limit=300),
    "gpu": Plan(least=7, most=15, seconds=1.5, call_seconds=0.02, limit=100),
}
PEERS = ("e3nn-mlx", "nequip", "mace")


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--preset", choices=("smoke", "full"), default="smoke", help="smoke: under a minute")
    add("--case", action="append", metavar="NAME", help=f"{', '.join(NAMES)}; NAME:TEXT keeps "
        "those whose sizes have this text; may be given again")  # fmt: skip
    add("--phase", action="append", choices=PHASES, help="may be given again")
    add("--implementation", action="append", choices=tuple(IMPLEMENTATIONS), metavar="NAME",
        help=f"{', '.join(IMPLEMENTATIONS)}; all by default")  # fmt: skip
    add("--device", choices=("cpu", "gpu"), default="cpu", help="gpu: sizes for a GPU too")
    add("--threads", type=int, help="of each process (smoke: 1, full: 2)")
    add("--torch-python", default=os.environ.get("MLPOT_TORCH_PYTHON"), metavar="PATH",
        help="a Python with torch and e3nn (default: $MLPOT_TORCH_PYTHON)")  # fmt: skip
    add("--peer-python", action="append", default=[], metavar="NAME=PATH",
        help=f"a Python with {', '.join(PEERS)}")  # fmt: skip
    add("--seconds", type=float, help="aimed at for the repeats of a phase")
    add("--limit", type=float, help="seconds after which building and compiling are given up")
    add("--memory", action="store_true", help="measure peak memory against atoms instead")
    add("--memory-limit", type=float, default=8.0, metavar="GIB", help="stop beyond this peak")
    add("--out", type=Path, default=Path("benchmark"), help="folder of the report")
    found = parser.parse_args(arguments)
    if found.threads is None:
        found.threads = 1 if found.preset == "smoke" else 2
    if found.threads < 1:
        parser.error(f"--threads {found.threads}: give at least 1")
    for text in found.peer_python:
        if text.partition("=")[0] not in PEERS or not text.partition("=")[2]:
            parser.error(f"--peer-python {text}: give NAME=PATH with NAME of {', '.join(PEERS)}")
    return found


def pythons(arguments: argparse.Namespace) -> dict[str, str]:
    """Interpreters by name. This one may have peers too; the workers find out."""
    found = dict.fromkeys(("mlpot", *PEERS), sys.executable)
    if arguments.torch_python:
        found["torch"] = arguments.torch_python
    return found | dict(text.split("=", 1) for text in arguments.peer_python)


def run(arguments: argparse.Namespace) -> int:
    """All cases; the exit code is 1 if an implementation failed, differed or the control did."""
    preset = "gpu" if (arguments.preset, arguments.device) == ("full", "gpu") else arguments.preset
    plan = PLANS[preset]
    plan = dataclasses.replace(
        plan,
        seconds=arguments.seconds or plan.seconds,
        limit=arguments.limit or plan.limit,
    )
    names = arguments.implementation or list(IMPLEMENTATIONS)
    implementations = [IMPLEMENTATIONS[name] for name in IMPLEMENTATIONS if name in names]
    if preset == "smoke":
        # One case is enough to see that compiled ones run.
        implementations = [
            dataclasses.replace(i, cases=("linear",)) if i.compiled else i for i in implementations
        ]
    rows, versions, peaks = [], {}, []
    with tempfile.TemporaryDirectory(prefix="mlpot-benchmark-") as folder:
        machine = Machine(arguments.device, arguments.threads, pythons(arguments), Path(folder))
        if arguments.memory:
            peaks = memory.measure(machine, implementations, arguments.memory_limit, versions)
        else:
            tasks = chosen(preset, arguments.case, arguments.phase)
            rows = time_all(machine, implementations, tasks, plan, versions)
    result = {
        "environment": describe("python " + shlex.join(shorten(sys.argv))),
        "versions": versions,
        "preset": preset,
        "threads": arguments.threads,
        "control": control.check(rows),
        "rows": rows,
        "memory": peaks,
    }
    report.write(arguments.out, result)
    print_rows(result)
    print(f"report: {arguments.out / 'report.html'}")
    bad = [row for row in rows if row["status"].startswith(("failed", "differs"))]
    return 1 if bad or not all(map(control.passed, result["control"])) else 0


def shorten(arguments: list[str]) -> list[str]:
    """The command without the folders of this machine."""
    found = []
    for text in arguments:
        name, equals, path = text.rpartition("=")
        found.append(name + equals + (Path(path).name if path.startswith("/") else path))
    return ["evals/run.py", *found[1:]]


def time_all(machine: Machine, implementations, tasks, plan: Plan, versions: dict) -> list[dict]:
    """Rows of all cases; versions are filled in."""
    progress = Progress(sum(len(phases) for _, phases in tasks))
    rows: list[dict] = []
    absent: dict[str, str] = {}
    for case, phases in tasks:
        inputs = machine.folder / "inputs.npz"
        np.savez(inputs, **draw(case))
        # Who is not installed is not asked again.
        with Crew(machine, [i for i in implementations if takes(i, case, phases, machine)],
                  absent=dict(absent)) as crew:  # fmt: skip
            ours = plan
            if case.name == control.CASE:
                # What is to come out equal deserves more repeats.
                ours = dataclasses.replace(
                    plan, least=3 * plan.least, call_seconds=2 * plan.call_seconds
                )
            for phase in phases:
                progress.begin(f"{case.name} {case.label}, {phase}")
                if phase == "cold":
                    rows += cold.measure(crew, case, phase, inputs, plan.limit)
                else:
                    rows += timing.measure(crew, case, phase, inputs, ours)
                progress.finish()
        absent |= {k: why for k, why in crew.absent.items() if why.startswith("not installed")}
        for facts in crew.facts.values():
            versions |= facts["versions"]
    progress.close()
    return rows


def takes(implementation, case, phases, machine: Machine) -> bool:
    """Whether it has anything to do."""
    return any(implementation.takes(case, phase, machine.device) for phase in phases)


def main() -> int:
    """Run the command line."""
    arguments = parse()
    try:
        return run(arguments)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
