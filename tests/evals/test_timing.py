"""Rows of the benchmark: who differs is not timed, who is absent is listed, pairs stay together."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from benchmark import control
from benchmark.cases import CASES
from benchmark.crew import Crew, Machine
from benchmark.implementations import IMPLEMENTATIONS
from benchmark.process import WorkerFailedError
from benchmark.timing import FEWEST, Plan, measure

CASE = next(c for c in CASES if c.name == "matrix_product" and "smoke" in c.presets)
PLAN = Plan(least=3, most=4, seconds=0.1, call_seconds=0.01, limit=5)
NAMES = ("e3nn", "mlpot-reference", "mlpot-kernels")


class Fake:
    """Stands in for a process: fixed outputs and a fixed time of a call."""

    def __init__(self, out, seconds, log, name, fails=""):
        self.out, self.seconds, self.log, self.name, self.fails = out, seconds, log, name, fails

    def ask(self, request, limit):
        if request["do"] == self.fails:
            raise WorkerFailedError("it broke")
        if request["do"] == "prepare":
            np.savez(request["out"], out=np.array(self.out, dtype="f4"))
            facts = {"build_s": 0.1, "first_s": 0.5, "warm_s": 0.2, "call_s": self.seconds}
            return facts | {"paths": [], "done_at": 0.0}
        self.log.append((self.name, request["calls"]))
        return {"seconds": self.seconds}

    def end(self):
        self.log.append((self.name, "ended"))


class FakeCrew(Crew):
    def start(self):
        pass


def crew(folder: Path, workers: dict, absent=None) -> FakeCrew:
    machine = Machine("cpu", 1, {}, folder)
    return FakeCrew(machine, [IMPLEMENTATIONS[n] for n in NAMES], dict(workers), {}, absent or {})


def rows_of(folder, log, **changes):
    """Three workers that agree and take 30, 20 and 10 ms, unless changed."""
    times = dict(zip(NAMES, (0.03, 0.02, 0.01), strict=True))
    workers = {
        name: Fake(**{"out": [1.0, 2.0], "seconds": times[name], "log": log, "name": name}
                   | changes.get(name.replace("-", "_"), {}))
        for name in NAMES
    }  # fmt: skip
    rows = measure(crew(folder, workers), CASE, "forward", folder / "in.npz", PLAN)
    return {row["implementation"]: row for row in rows}


def test_speedups_are_over_e3nn_and_over_each_other(tmp_path):
    log = []
    rows = rows_of(tmp_path, log)
    assert rows["mlpot-kernels"]["baseline"] == "e3nn"
    assert rows["mlpot-kernels"]["faster_than"]["e3nn"]["median"] == pytest.approx(3.0)
    assert rows["mlpot-kernels"]["faster_than"]["mlpot-reference"]["median"] == pytest.approx(2.0)
    assert rows["e3nn"]["time_s"]["median"] == pytest.approx(0.03)


def test_repeats_are_interleaved_and_turns_change(tmp_path):
    log = []
    rows_of(tmp_path, log)
    order = [name for name, _ in log]
    assert order[:9] == [*NAMES, *NAMES[1:], NAMES[0], NAMES[2], *NAMES[:2]]


def test_who_differs_is_an_error_and_not_timed(tmp_path):
    log = []
    rows = rows_of(tmp_path, log, mlpot_kernels={"out": [1.0, 2.01]})
    row = rows["mlpot-kernels"]
    assert row["status"].startswith("differs: 5.0e-03 from e3nn")
    assert "seconds" not in row and "time_s" not in row
    assert "mlpot-kernels" not in rows["e3nn"]["faster_than"]
    assert not any(name == "mlpot-kernels" for name, _ in log)
    assert rows["mlpot-reference"]["status"] == "ok"


@pytest.mark.parametrize("phase", ["prepare", "time"])
def test_who_breaks_is_an_error_and_the_others_go_on(tmp_path, phase):
    log = []
    rows = rows_of(tmp_path, log, e3nn={"fails": phase})
    assert rows["e3nn"]["status"] == "failed: it broke"
    assert ("e3nn", "ended") in log
    assert rows["mlpot-kernels"]["baseline"] == "mlpot-reference"
    assert rows["mlpot-kernels"]["faster_than"]["mlpot-reference"]["median"] == pytest.approx(2.0)


def test_who_is_absent_is_listed(tmp_path):
    log = []
    workers = {"mlpot-kernels": Fake([1.0], 0.01, log, "mlpot-kernels")}
    absent = dict.fromkeys(NAMES[:2], "not installed: no torch")
    rows = measure(crew(tmp_path, workers, absent), CASE, "forward", tmp_path / "in.npz", PLAN)
    status = {row["implementation"]: row["status"] for row in rows}
    assert status == absent | {"mlpot-kernels": "ok"}


@pytest.mark.parametrize(
    ("low", "high", "same"),
    [(0.95, 1.05, True), (0.85, 1.05, True), (1.05, 1.3, True), (0.85, 1.2, None),
     (0.5, 0.89, False), (1.11, 2.0, False)],
)  # fmt: skip
def test_times_of_the_control(low, high, same):
    assert control.same_time(low, high) is same
    entry = {"case": "matrix_product", "backends": [], "same_bits": True, "same_time": same}
    assert control.passed(entry)
    assert ("noisy" in control.verdict(entry)) == (same is None)


def test_short_calls_are_repeated_within_a_repeat():
    assert PLAN.calls(0.001) == 10
    assert PLAN.calls(1.0) == 1
    assert PLAN.repeats(1.0) == PLAN.least
    assert PLAN.repeats(1e-9) == PLAN.most
    assert dataclasses.replace(PLAN, least=9, most=9).repeats(1.0) == FEWEST


def test_control_passes_with_the_same_bits_only(tmp_path):
    rows = list(rows_of(tmp_path, []).values())
    (entry,) = control.check(rows)
    assert control.passed(entry)
    assert not entry["same_time"]  # 20 ms against 10
    rows = list(rows_of(tmp_path, [], mlpot_kernels={"out": [1.0, 2.0 + 3e-7]}).values())
    (entry,) = control.check(rows)
    assert not control.passed(entry)
    for row in rows:
        row["paths"] = [{"primitive": "gather", "backend": "native", "refusals": []}]
    (entry,) = control.check(rows)
    assert entry["backends"] == ["native"]
    assert not control.passed(entry)
    # A linear map that has a kernel is no control.
    assert control.passed(entry | {"case": "linear"})
    assert not control.passed(entry | {"case": "linear", "backends": []})
