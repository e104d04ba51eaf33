"""One phase of one case: everybody prepares, outputs are compared, repeats are interleaved."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .agreement import TOLERANCES, difference
from .cases import Case
from .crew import Crew
from .implementations import IMPLEMENTATIONS
from .process import WorkerFailedError
from .statistics import Spread, speedup

#: What speedups are given over, the first that has run.
BASELINES = ("e3nn", "mlpot-reference", "mlpot-kernels")


@dataclass(frozen=True)
class Plan:
    """How long is measured.

    Args:
        least: repeats at least.
        most: repeats at most.
        seconds: aimed at for all repeats of a phase.
        call_seconds: shorter calls are repeated within a repeat until they take this long.
        limit: seconds after which building and first call (with compilation) are given up.
    """

    least: int
    most: int
    seconds: float
    call_seconds: float
    limit: float

    def calls(self, call: float) -> int:
        """Calls in one repeat."""
        return max(1, math.ceil(self.call_seconds / max(call, 1e-6)))

    def repeats(self, once: float) -> int:
        """Repeats, if all implementations together take this long for one."""
        least = self.least if once < self.seconds else min(self.least, FEWEST)
        return min(self.most, max(least, int(self.seconds / max(once, 1e-6))))


#: Repeats of what takes longer once than is aimed at for all repeats.
FEWEST = 3

Row = dict[str, Any]


def measure(crew: Crew, case: Case, phase: str, inputs: Path, plan: Plan) -> list[Row]:
    """Rows of one phase, one for each implementation that takes it, absent ones included."""
    crew.start()
    rows, outputs = {}, {}
    for implementation in crew.implementations:
        name = implementation.name
        if not implementation.takes(case, phase, crew.machine.device):
            continue
        rows[name] = new_row(case, phase, name, implementation.compiled, crew)
        if name in crew.absent:
            rows[name]["status"] = crew.absent[name]
            continue
        try:
            outputs[name] = _prepare(crew, case, phase, inputs, plan, rows[name])
            rows[name]["digest"] = digest(outputs[name])
        except WorkerFailedError as error:
            rows[name]["status"] = f"failed: {error}"
            crew.drop(name)
    compare(rows, outputs, case, phase)
    good = [name for name, row in rows.items() if row["status"] == "ok"]
    _time(crew, case, rows, good, plan)
    rank(rows)
    return list(rows.values())


def new_row(case: Case, phase: str, name: str, compiled: bool, crew: Crew) -> Row:
    """A row before anything is known."""
    return {
        "case": case.name,
        "label": case.label,
        "phase": phase,
        "implementation": name,
        "mode": "compiled" if compiled else "eager",
        "device": crew.machine.device,
        "threads": crew.machine.threads,
        "status": "ok",
    }


def _prepare(crew: Crew, case: Case, phase: str, inputs: Path, plan: Plan, row: Row) -> dict:
    name = row["implementation"]
    out = crew.machine.folder / f"{name}.npz"
    request = {"do": "prepare", "case": dataclasses.asdict(case), "phase": phase}
    facts = crew.running[name].ask(
        request | {"inputs": str(inputs), "out": str(out)}, limit=plan.limit
    )
    row |= {key: facts[key] for key in ("build_s", "first_s", "warm_s", "call_s", "paths")}
    with np.load(out) as file:
        return dict(file)


def digest(outputs: Mapping[str, np.ndarray]) -> str:
    """Of all bits of the outputs."""
    found = hashlib.sha256()
    for name in sorted(outputs):
        found.update(name.encode() + np.ascontiguousarray(outputs[name]).tobytes())
    return found.hexdigest()[:16]


def compare(rows: Mapping[str, Row], outputs: Mapping[str, dict], case: Case, phase: str) -> None:
    """Take those out of the timing that do not agree with the first baseline that has run."""
    baseline = next((name for name in BASELINES if name in outputs), None)
    if baseline is None:
        return
    for name, found in outputs.items():
        implementation = IMPLEMENTATIONS[name]
        if not implementation.same_function:
            rows[name]["compared_with"] = "nothing: another function of like size"
            continue
        error = difference(found, outputs[baseline])
        allowed = max(TOLERANCES[phase], dict(implementation.tolerances).get(case.name, 0.0))
        rows[name] |= {"compared_with": baseline, "error": error, "tolerance": allowed}
        if not error <= allowed:
            rows[name]["status"] = f"differs: {error:.1e} from {baseline}, allowed {allowed:.0e}"


def _time(crew: Crew, case: Case, rows: dict[str, Row], names: list[str], plan: Plan) -> None:
    calls = {name: plan.calls(rows[name]["call_s"]) for name in names}
    # What a GPU computes for one operation is less than it takes to ask for it and to wait.
    queued = crew.machine.device == "gpu" and not case.structure
    once = sum(calls[name] * rows[name]["call_s"] for name in names)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    start = time.perf_counter()
    for repeat in range(plan.repeats(once)):
        late = time.perf_counter() - start > 2 * plan.seconds
        if late and repeat >= FEWEST:
            break
        # Everybody takes each place in the order in turn.
        turn = repeat % max(len(names), 1)
        for name in names[turn:] + names[:turn]:
            short = rows[name]["call_s"] < 0.25
            request = {"do": "time", "calls": calls[name], "settle": short, "queued": queued}
            try:
                answer = crew.running[name].ask(request, limit=plan.limit)
            except (WorkerFailedError, KeyError) as error:
                if rows[name]["status"] == "ok":
                    rows[name]["status"] = f"failed: {error}"
                    crew.drop(name)
                continue
            seconds[name].append(answer["seconds"])
    for name in names:
        if rows[name]["status"] == "ok":
            rows[name] |= {"calls": calls[name], "queued": queued, "seconds": seconds[name]}


def rank(rows: Mapping[str, Row]) -> None:
    """Add medians, and the speedup of each row over each other one of the same phase."""
    timed = {name: row for name, row in rows.items() if row.get("seconds")}
    baseline = next((name for name in BASELINES if name in timed), None)
    for row in timed.values():
        row["time_s"] = Spread.of(row["seconds"]).dictionary()
        row["faster_than"] = {
            other: speedup(timed[other]["seconds"], row["seconds"]).dictionary()
            for other in timed
            if timed[other] is not row
        }
        row["baseline"] = baseline
