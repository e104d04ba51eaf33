"""Jobs of mlpot, plain or with kernels (the environment of the process says which)."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

import mlpot  # isort: skip  (before MLX, so that TF32 is off from the start)
import mlx.core as mx

from mlpot import kernels
from mlpot.kernels import native
from mlpot.kernels.replay import Replayed

from . import mlpot_models, mlpot_operations
from .cases import Case
from .jobs import Job
from .random_numbers import normal

#: Bytes that are given back to the device between repeats.
MUCH = 4 * 2**30


def start(name: str) -> dict[str, str]:
    """Choose the device; versions."""
    del name
    mx.set_default_device(mx.gpu if os.environ["BENCHMARK_DEVICE"] == "gpu" else mx.cpu)
    if os.environ["BENCHMARK_DEVICE"] == "cpu" and os.environ.get("MLPOT_KERNELS") != "reference":
        # Compiled here where they never were: that belongs to no case.
        native.available()
    return {"mlpot": mlpot.__version__, "mlx": mx.__version__}


def paths() -> list[dict]:
    """Backend of each primitive that has run, and why not a faster one."""
    return [
        {"primitive": c.primitive, "backend": c.backend, "refusals": list(map(list, c.refusals))}
        for c in kernels.report()
    ]


def peak(call: Callable[[], Any]) -> int:
    """Bytes of MLX's arrays at the peak of a call."""
    mx.reset_peak_memory()
    call()
    return int(mx.get_peak_memory())


def release() -> None:
    """Leave the memory of a GPU, if it is much, to the others."""
    if mx.get_cache_memory() > MUCH:
        mx.clear_cache()


def prepare(case: Case, phase: str, arrays: dict[str, np.ndarray], compiled: bool) -> Job:
    """The job of a case."""
    kernels.clear_report()
    if case.structure:
        return _model(case, phase, arrays, compiled)
    operation = mlpot_operations.build(case, arrays)
    names = list(operation.inputs)
    given = [operation.array(name, numbers) for name, numbers in operation.inputs.items()]

    def forward(*xs: mx.array) -> dict[str, mx.array]:
        return {"out": operation.function(*xs)}

    def adjoints(cotangent: mx.array, *xs: mx.array) -> dict[str, mx.array]:
        out, gradients = mx.vjp(lambda *xs: operation.function(*xs), list(xs), [cotangent])
        return {"out": out[0]} | {f"d_{k}": g for k, g in zip(names, gradients, strict=True)}

    function = forward
    if phase == "train":
        shape = operation.function(*given).shape
        given.insert(0, operation.array("out", normal(case.seed, "cotangent", tuple(shape))))
        function = adjoints
    return _job(function, given, compiled, operation.numbers)


def _model(case: Case, phase: str, arrays: dict[str, np.ndarray], compiled: bool) -> Job:
    model = mlpot_models.build(case, arrays)
    if phase == "md":
        return Job(
            model.molecular_dynamics, mx.eval, lambda r: {k: np.array(a) for k, a in r.items()}
        )
    function, given = model.phase(phase)
    return _job(function, given, compiled, lambda name, array: np.array(array))


def _recorded(function: Callable[..., dict[str, mx.array]]) -> Callable[..., dict[str, mx.array]]:
    """The function without Python: replayed as it is recorded, plain MLX on CPUs fused too.

    For a whole model NVRTC or a C++ compiler would take minutes for the fused kernels.
    """
    if mx.default_device() != mx.Device(mx.gpu) and os.environ.get("MLPOT_KERNELS") == "reference":
        return mx.compile(function)
    record = Replayed(lambda arrays: function(*arrays.values()))
    return lambda *given: record({f"{i:03}": array for i, array in enumerate(given)})


def _job(
    function: Callable[..., dict[str, mx.array]],
    given: list[mx.array],
    compiled: bool,
    numbers: Callable[[str, mx.array], np.ndarray],
) -> Job:
    mx.eval(given)
    run = _recorded(function) if compiled else function

    def begin() -> dict[str, mx.array]:
        result = run(*given)
        # On a GPU the host goes on while the device computes, as with torch.
        if mx.default_device() == mx.Device(mx.gpu):
            mx.async_eval(result)
        return result

    return Job(begin, mx.eval, lambda result: {k: numbers(k, a) for k, a in result.items()})
