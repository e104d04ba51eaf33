"""What all workers on torch share: device, threads, waiting, memory."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch

from .jobs import Job

#: Bytes that are given back to the device between repeats.
MUCH = 4 * 2**30


def device() -> torch.device:
    """The device of this process."""
    return torch.device("cuda" if os.environ["BENCHMARK_DEVICE"] == "gpu" else "cpu")


def start() -> str:
    """Set threads and full precision, start the device; the version of torch."""
    torch.set_num_threads(int(os.environ["BENCHMARK_THREADS"]))
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.zeros(1, device=device())
    return torch.__version__


def paths() -> list[dict]:
    """Torch does not say which kernels it takes."""
    return []


def peak(call: Callable[[], Any]) -> int:
    """Bytes of torch's arrays on the GPU at the peak of a call."""
    torch.cuda.reset_peak_memory_stats()
    call()
    return int(torch.cuda.max_memory_allocated())


def release() -> None:
    """Leave the memory of a GPU, if it is much, to the others."""
    if device().type == "cuda" and torch.cuda.memory_reserved() > MUCH:
        torch.cuda.empty_cache()


def job(function: Callable[[], dict[str, torch.Tensor]]) -> Job:
    """A job that waits for the device."""

    def wait(_: dict[str, torch.Tensor]) -> None:
        if device().type == "cuda":
            torch.cuda.synchronize()

    return Job(
        function, wait, lambda found: {k: a.detach().cpu().numpy() for k, a in found.items()}
    )
