"""A GPU made of the emulator and NVRTC, for tests of generated kernels on any Linux machine.

Within ``with emulated_gpu():`` the package finds a Metal GPU that is the default device. Every
`GeneratedKernel` that is called runs through all checks of the emulator (ranges, undefined
behaviour, order of threads, unwritten elements, races), with the arrays and grid that MLX would
get, and its CUDA text is compiled by NVRTC, with 32-bit and 64-bit offsets: as the package does it
for one architecture, as MLX does it for another. A finding is an AssertionError. What the call
returns is the emulated result, so whatever is built on kernels can be compared with a float64
reference. So a test of a new kernel is::

    pytestmark = pytest.mark.emulated

    @pytest.mark.parametrize("n", [1, 7, 33])
    def test_my_kernel(n):
        x = random_array((n, 3))
        with emulated_gpu() as gpu:
            found = my_module.my_values(x)          # calls a GeneratedKernel
        assert_close(found, my_reference(to_float64(x)), 2e-6)
        assert gpu.kernels == ["my_kernel"]         # it did run: no other path was taken

Keep the arrays small (some hundred rows): a GPU thread takes about a microsecond. Derivatives by
``mx.grad``, ``mx.vjp`` and ``mx.jvp`` work, but for a ``mx.jvp`` within a ``mx.grad``: there MLX
drops the graph of what is evaluated, and the emulator needs the numbers at once. For the same
reason ``mx.compile`` and ``mx.vmap`` do not work.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from unittest import mock

import mlx.core as mx
import numpy as np
from msl_emulator import Launch, MetalKernel
from nvrtc import ARCHITECTURES, Compiled, compile_text, mlx_text

from mlpot.kernels.gpu import GeneratedKernel


@dataclass
class EmulatedGPU:
    """What ran.

    Args:
        kernels: names of the kernels in the order of their calls, without MLX's decoration.
        compiled: what NVRTC made of them, by name and architecture.
    """

    kernels: list[str] = field(default_factory=list)
    compiled: dict[tuple[str, str], Compiled] = field(default_factory=dict)


@contextlib.contextmanager
def emulated_gpu() -> Iterator[EmulatedGPU]:
    """A GPU within the block; see the module."""
    gpu = EmulatedGPU()
    real_call = GeneratedKernel.__call__

    def call(self, inputs, shapes, dtypes, blocks, threads):
        gpu.kernels.append(short_name(self))
        arrays = tuple((a.dtype, a.ndim) for a in inputs)
        for architecture in ARCHITECTURES:
            narrow, _ = [
                _compile(self, arrays, tuple(dtypes), architecture, wide) for wide in (False, True)
            ]
            gpu.compiled[short_name(self), architecture] = narrow
        return real_call(self, inputs, shapes, dtypes, blocks, threads)

    with (
        mock.patch.object(mx.metal, "is_available", return_value=True),
        mock.patch.object(mx.fast, "metal_kernel", _emulated_kernel),
        mock.patch.object(mx, "default_device", return_value=mx.Device(mx.gpu)),
        mock.patch.object(GeneratedKernel, "__call__", call),
    ):
        yield gpu


def short_name(kernel: GeneratedKernel) -> str:
    """The name that a kernel was given."""
    return kernel.name.removeprefix("mlpot_").rsplit("_", 1)[0]


@functools.lru_cache(maxsize=1024)
def _compile(
    kernel: GeneratedKernel, arrays: tuple, dtypes: tuple, architecture: str, wide: bool
) -> Compiled:
    if architecture == ARCHITECTURES[0]:
        return compile_text(kernel.cuda_text(arrays, dtypes, wide).text, architecture)
    inputs = [(name, *array) for name, array in zip(kernel.inputs, arrays, strict=True)]
    outputs = list(zip(kernel.outputs, dtypes, strict=True))
    text = mlx_text(
        kernel.name, inputs, outputs, kernel.body("cuda", wide), kernel.header("cuda", wide)
    )
    return compile_text(text, architecture)


def _emulated_kernel(name, input_names, output_names, source, header=""):
    """In the place of ``mx.fast.metal_kernel``."""
    kernel = MetalKernel(name, input_names, output_names, source, header)

    def run(*, inputs, grid, threadgroup, output_shapes, output_dtypes):
        launch = Launch(inputs, output_shapes, output_dtypes, grid, threadgroup)
        outputs, findings = kernel.verify(launch)
        assert not findings, f"{name}: " + "; ".join(findings)
        return outputs

    return run


def random_array(shape: tuple[int, ...], dtype: mx.Dtype = mx.float32, seed: int = 0) -> mx.array:
    """Normally distributed numbers; other numbers for other shapes and seeds."""
    numbers = np.random.default_rng([seed, *shape]).normal(size=shape)
    return mx.array(numbers.astype(np.float32)).astype(dtype)


def to_float64(array: mx.array) -> mx.array:
    """The same numbers in float64 (integers stay what they are)."""
    if not mx.issubdtype(array.dtype, mx.floating):
        return array
    return mx.array(np.array(array.astype(mx.float32)), dtype=mx.float64)


def assert_close(found: mx.array, wanted, tolerance: float) -> None:
    """The difference is at most ``tolerance`` times the largest number of ``wanted``."""
    a = np.array(found.astype(mx.float32), np.float64)
    b = np.array(wanted, np.float64)
    assert a.shape == b.shape
    worst = np.max(np.abs(a - b), initial=0.0)
    assert worst <= tolerance * np.max(np.abs(b), initial=1e-30), f"differs by {worst:.3g}"
