"""A GPU that is imagined: what MLX would be handed is recorded, nothing is computed."""

from __future__ import annotations

import contextlib
from unittest import mock

import mlx.core as mx

from mlpot.kernels.gpu import (
    GeneratedKernel,
    compilation,
)

FLOAT = mx.float32


class ImaginedGPU:
    """Records what MLX would be handed; every kernel gives ones.

    Attributes:
        precompiled: arguments of each call of ``mx.fast.precompiled_cuda_kernel``.
        by_mlx: names of kernels that ``mx.fast.cuda_kernel`` was given.
    """

    def __init__(self) -> None:
        self.precompiled: list[dict] = []
        self.by_mlx: list[str] = []

    def run(self, **arguments):
        self.precompiled.append(arguments)
        return self._ones(**arguments)

    def make(self, *, name, **_):
        self.by_mlx.append(name)
        return self._ones

    def _ones(self, *, output_shapes, output_dtypes, **_):
        return [mx.ones(s, d) for s, d in zip(output_shapes, output_dtypes, strict=True)]


@contextlib.contextmanager
def imagined_gpu(monkeypatch, folder):
    """A GPU of compute capability 9.0 whose kernels are kept in the folder."""
    monkeypatch.setenv("MLPOT_CACHE_DIR", str(folder))
    monkeypatch.delenv("MLPOT_NVRTC", raising=False)
    imagined = ImaginedGPU()
    info = {"compute_capability_major": 9, "compute_capability_minor": 0}
    with contextlib.ExitStack() as stack:
        for place, name, value in (
            (mx.cuda, "is_available", lambda: True),
            (mx.metal, "is_available", lambda: False),
            (mx, "device_info", lambda *_: info),
            (mx.fast, "precompiled_cuda_kernel", imagined.run),
            (mx.fast, "cuda_kernel", imagined.make),
        ):
            stack.enter_context(mock.patch.object(place, name, value))
        compilation.device_architecture.cache_clear()
        compilation.forget()
        yield imagined
    compilation.device_architecture.cache_clear()
    compilation.forget()


def scaled(factor: float = 2.0, long: bool = False) -> GeneratedKernel:
    body = f"if (GLOBAL_X < x_shape[0]) out[GLOBAL_X] = {factor}f * x[GLOBAL_X];"
    body += "// a comment\n" * (compilation.SHORT_TEXT // 10) if long else ""
    return GeneratedKernel("scaled", ["x"], ["out"], body)


def call(kernel: GeneratedKernel, n: int = 5) -> mx.array:
    return kernel([mx.ones((n,))], [(n,)], [FLOAT], blocks=1, threads=32)[0]
