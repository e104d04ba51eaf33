"""A worker: builds one case under one implementation and times calls of it on request.

    python -m benchmark.worker IMPLEMENTATION

Requests: ``prepare`` (build, call once, write the outputs, warm up), ``time`` (so many calls),
``memory`` (peak of one call). See `process` for the other side.
"""

from __future__ import annotations

import importlib
import math
import os
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from .cases import Case
from .channel import serve, take_stdout
from .implementations import IMPLEMENTATIONS
from .jobs import Job

#: Outputs with more numbers than this are compared in a sample.
LARGEST = 2**24
#: Packages that need not be there.
PEERS = (
    *("torch", "e3nn", "e3nn_mlx", "nequip", "mace"),
    *("cuequivariance", "cuequivariance_torch", "cuequivariance_ops_torch"),
)
#: Warm is who has made this many calls in a row within this factor of the fastest: TorchScript,
#: for one, compiles again and again during the first calls.
STEADY_CALLS, STEADY_FACTOR = 3, 1.5
#: No more warming up beyond this, or beyond this many calls.
WARM_SECONDS, WARM_CALLS = 20.0, 50


class Worker:
    """What a worker does with the requests."""

    def __init__(self, name: str) -> None:
        self.implementation = IMPLEMENTATIONS[name]
        self.adapter: Any = None
        self.job: Job | None = None
        self.before = 0

    def hello(self) -> dict:
        """Versions, or what is missing."""
        start = time.perf_counter()
        try:
            self.adapter = importlib.import_module(f".{self.implementation.adapter}", __package__)
            versions = self.adapter.start(self.implementation.name)
        except ModuleNotFoundError as error:
            # Anything else that cannot be imported is a fault.
            if (error.name or "").partition(".")[0] not in PEERS:
                raise
            return {"not_installed": str(error)}
        return {"versions": versions, "import_s": time.perf_counter() - start}

    def answer(self, request: dict) -> dict:
        """Do what is asked."""
        return getattr(self, request.pop("do"))(**request)

    def prepare(self, case: dict, phase: str, inputs: str, out: str, warm: bool = True) -> dict:
        """Build, call once, keep the outputs, warm up."""
        with np.load(inputs) as file:
            arrays = dict(file)
        self.before = self.before or resident()
        start = time.perf_counter()
        self.job = None
        job = self.adapter.prepare(Case(**case), phase, arrays, self.implementation.compiled)
        built = time.perf_counter()
        result = job.call()
        first = time.perf_counter()
        done_at = time.time()
        np.savez(out, **{name: sample(a) for name, a in job.outputs(result).items()})
        self.job = job
        seconds = warm_up(job.call) if warm else [first - built]
        self.adapter.release()
        return {
            "build_s": built - start,
            "first_s": first - built,
            "warm_s": sum(seconds) if warm else 0.0,
            "call_s": min(seconds),
            "done_at": done_at,
            "paths": self.adapter.paths(),
        }

    def time(self, calls: int, settle: bool, queued: bool = False) -> dict:
        """Mean seconds of some calls.

        ``settle``: after one that does not count. ``queued``: all are begun, then waited for.
        """
        assert self.job is not None
        if settle:
            self.job.call()
        begin = time.perf_counter()
        for _ in range(calls):
            result = self.job.begin()
            if not queued:
                self.job.wait(result)
        self.job.wait(result)
        seconds = (time.perf_counter() - begin) / calls
        self.adapter.release()
        return {"seconds": seconds}

    def memory(self) -> dict:
        """Bytes at the peak of one call.

        On a GPU those of the package's arrays; on a CPU those of the process beyond what it had
        before anything was built, as torch does not count there.
        """
        assert self.job is not None
        if os.environ["BENCHMARK_DEVICE"] == "gpu":
            return {"peak": self.adapter.peak(self.job.call)}
        self.job.call()
        return {"peak": resident() - self.before}


def resident() -> int:
    """Most bytes of memory that this process has had."""
    kilobytes = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * kilobytes


def sample(array: np.ndarray) -> np.ndarray:
    """The array, or about LARGEST of its numbers, evenly spread over all columns."""
    if array.size <= LARGEST:
        return array
    step = array.size // LARGEST + 1
    while math.gcd(step, array.shape[-1]) > 1:
        step += 1
    return array.ravel()[::step]


def warm_up(call: Callable[[], Any]) -> list[float]:
    """Call until the time is steady; seconds of each call."""
    seconds: list[float] = []
    while len(seconds) < WARM_CALLS and sum(seconds) < WARM_SECONDS:
        begin = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - begin)
        last = seconds[-STEADY_CALLS:]
        if len(last) == STEADY_CALLS and max(last) <= STEADY_FACTOR * min(seconds):
            break
    return seconds


def main() -> None:
    """Serve one implementation."""
    pipe = take_stdout()
    worker = Worker(sys.argv[1])
    serve(pipe, worker.hello(), worker.answer)


if __name__ == "__main__":
    main()
