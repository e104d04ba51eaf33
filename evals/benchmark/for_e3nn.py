"""Jobs of e3nn on torch, CPU or CUDA."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

warnings.filterwarnings("ignore")

import e3nn  # noqa: E402
import torch  # noqa: E402

from . import e3nn_models, e3nn_operations, torch_worker  # noqa: E402
from .cases import Case  # noqa: E402
from .jobs import Job  # noqa: E402
from .random_numbers import normal  # noqa: E402
from .torch_worker import job, paths, peak, release  # noqa: E402, F401


def start(name: str) -> dict[str, str]:
    """Set threads and precision; versions."""
    del name
    return {"torch": torch_worker.start(), "e3nn": e3nn.__version__}


def prepare(case: Case, phase: str, arrays: dict[str, np.ndarray], compiled: bool) -> Job:
    """The job of a case."""
    assert not compiled
    given = {k: torch.tensor(a, device=torch_worker.device()) for k, a in arrays.items()}
    given = {k: a.long() if a.dtype == torch.int32 else a for k, a in given.items()}
    if case.structure:
        return job(e3nn_models.build(case, given).phase(phase))
    return job(operation(case, phase, *e3nn_operations.build(case, given)))


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
    cotangent = torch.tensor(normal(case.seed, "cotangent", shape), device=torch_worker.device())

    def adjoints():
        out = function(*inputs.values())
        gradients = torch.autograd.grad(out, list(inputs.values()), cotangent)
        return {"out": out} | {f"d_{k}": g for k, g in zip(inputs, gradients, strict=True)}

    return adjoints
