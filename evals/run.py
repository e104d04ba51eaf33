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
import time
from pathlib import Path

from benchmark import control, memory, report
from benchmark.cases import NAMES, PHASES, chosen
from benchmark.crew import Machine
from benchmark.environment import describe
from benchmark.implementations import IMPLEMENTATIONS
from benchmark.session import Session
from benchmark.summary import print_rows
from benchmark.timing import Plan

PLANS = {
    "smoke": Plan(least=3, most=3, seconds=0.5, call_seconds=0.002, limit=60),
    "full": Plan(least=5, most=25, seconds=10, call_seconds=0.05, limit=300),
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
    environment = describe("python " + shlex.join(shorten(sys.argv)))
    start, peaks = time.perf_counter(), []

    def result() -> dict:
        found = {"preset": preset, "threads": arguments.threads, "versions": session.versions}
        found |= {"environment": environment | {"seconds": round(time.perf_counter() - start)}}
        found |= {"control": control.check(session.rows), "rows": session.rows, "memory": peaks}
        return found

    with tempfile.TemporaryDirectory(prefix="mlpot-benchmark-") as folder:
        machine = Machine(arguments.device, arguments.threads, pythons(arguments), Path(folder))
        session = Session(machine, implementations, plan)
        if arguments.memory:
            limit = arguments.memory_limit
            peaks += memory.measure(machine, implementations, limit, session.versions)
        else:
            # After each case, so that a run that is cut short is not lost.
            session.run(
                chosen(preset, arguments.case, arguments.phase),
                lambda: report.write(arguments.out, result()),
            )
    found = result()
    report.write(arguments.out, found)
    print_rows(found)
    print(f"report: {arguments.out / 'report.html'}")
    bad = [row for row in session.rows if row["status"].startswith(("failed", "differs"))]
    return 1 if bad or not all(map(control.passed, found["control"])) else 0


def shorten(arguments: list[str]) -> list[str]:
    """The command without the folders of this machine."""
    found = []
    for text in arguments:
        name, equals, path = text.rpartition("=")
        found.append(name + equals + (Path(path).name if path.startswith("/") else path))
    return ["evals/run.py", *found[1:]]


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
