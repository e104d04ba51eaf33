"""Jobs of e3nn on torch, CPU or CUDA."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

warnings.filterwarnings("ignore")

import e3nn  # noqa: E402
import torch  # noqa: E402

from . import e3nn_models, e3nn_operations  # noqa: E402
from .cases import Case  # noqa: E402
from .jobs import Job  # noqa: E402
from .random_numbers import normal  # noqa: E402


def device() -> torch.device:
    """The device of this process."""
    return torch.device("cuda" if os.environ["BENCHMARK_DEVICE"] == "gpu" else "cpu")


def start(name: str) -> dict[str, str]:
    """Set threads and precision; versions."""
    del name
    torch.set_num_threads(int(os.environ["BENCHMARK_THREADS"]))
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.zeros(1, device=device())
    return {"e3nn": e3nn.__version__, "torch": torch.__version__}


def paths() -> list[dict]:
    """Torch does not say which kernels it takes."""
    return []


def wait() -> None:
    """Until the device has finished."""
    if device().type == "cuda":
        torch.cuda.synchronize()


def peak(call: Callable[[], Any]) -> int:
    """Bytes of torch's arrays at the peak of a call; CUDA only."""
    torch.cuda.reset_peak_memory_stats()
    call()
    return int(torch.cuda.max_memory_allocated())


def prepare(case: Case, phase: str, arrays: dict[str, np.ndarray], compiled: bool) -> Job:
    """The job of a case."""
    assert not compiled
    given = {k: torch.tensor(a, device=device()) for k, a in arrays.items()}
    given = {k: a.long() if a.dtype == torch.int32 else a for k, a in given.items()}
    if case.structure:
        return job(e3nn_models.build(case, given).phase(phase))
    return job(operation(case, phase, *e3nn_operations.build(case, given)))


def job(function: Callable[[], dict[str, torch.Tensor]]) -> Job:
    """A job that waits for the device."""

    def call() -> dict[str, torch.Tensor]:
        result = function()
        wait()
        return result

    return Job(call, lambda found: {k: a.detach().cpu().numpy() for k, a in found.items()})


def operation(
    case: Case, phase: str, function: Callable, inputs: dict[str, torch.Tensor]
) -> Callable[[], dict[str, torch.Tensor]]:
    """Forward, or forward and all adjoints, of a function of some inputs."""
    if phase == "forward":

        def forward():
            with torch.no_grad():
                return {"out": function(*inputs.values())}

        return forward
    for x in inputs.values():
        x.requires_grad_()
    shape = tuple(function(*inputs.values()).shape)
    cotangent = torch.tensor(normal(case.seed, "cotangent", shape), device=device())

    def adjoints():
        out = function(*inputs.values())
        gradients = torch.autograd.grad(out, list(inputs.values()), cotangent)
        return {"out": out} | {f"d_{k}": g for k, g in zip(inputs, gradients, strict=True)}

    return adjoints
