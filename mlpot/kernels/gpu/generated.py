"""A kernel made from one body for the GPU that is there, Apple's or NVIDIA's."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx

from . import compilation
from .cuda_text import KernelText, kernel_text
from .dialect import (
    MAX_SHARED_BYTES,
    MAX_THREADS,
    Dialect,
    shared_bytes,
    translate_body,
    translate_header,
)
from .vectors import for_any_start

#: Arrays of this many elements or more need offsets of 64 bits.
WIDE_INDEX_FROM = 2**31
#: MLX counts the threads of a grid in 32-bit integers, along each axis.
MAX_GRID = 2**31 - 1
#: Most blocks along y and z on NVIDIA GPUs.
MAX_BLOCKS_YZ = 65535

Size = int | tuple[int, ...]


def running_dialect() -> Dialect | None:
    """The dialect of this machine's GPU; None without one."""
    if mx.metal.is_available():
        return "metal"
    return "cuda" if mx.cuda.is_available() else None


def device_refusal() -> str | None:
    """Why no GPU kernel runs at this place of the program; None if one can."""
    if running_dialect() is None:
        return "there is no GPU"
    return None if mx.default_device() == mx.Device(mx.gpu) else "the default device is the CPU"


def grid_refusal(blocks: Size, threads: Size) -> str | None:
    """Why a grid of this many blocks of so many threads cannot run; None if it can."""
    blocks, threads = _three(blocks), _three(threads)
    if math.prod(threads) > MAX_THREADS:
        return f"a block of {math.prod(threads)} threads (the most is {MAX_THREADS})"
    if any(b * t > MAX_GRID for b, t in zip(blocks, threads, strict=True)):
        return f"a grid of {blocks} blocks of {threads} threads (the most is {MAX_GRID} an axis)"
    if max(blocks[1:]) > MAX_BLOCKS_YZ:
        return f"{max(blocks[1:])} blocks along y or z (the most is {MAX_BLOCKS_YZ})"
    return None


def _three(size: Size) -> tuple[int, int, int]:
    size = (size,) if isinstance(size, int) else size
    x, y, z = (*size, 1, 1, 1)[:3]
    return x, y, z


class GeneratedKernel:
    """A kernel for either kind of GPU, built when it is first called, then kept.

    CUDA kernels are compiled by `mlpot.kernels.gpu.compilation`, Metal's by MLX.

    Calling it computes values only; it has no derivatives.

    Args:
        name: an identifier; it need not be unique.
        inputs: names of the input arrays in the body.
        outputs: names of the output arrays.
        body: text in the words of ``mlpot.kernels.gpu.dialect``.
        header: helper functions and tables, in the same words.
        vectors: names of inputs that the body reads several elements of at once, see
            `mlpot.kernels.gpu.vectors`.
    """

    def __init__(
        self,
        name: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        body: str,
        header: str = "",
        vectors: Sequence[str] = (),
    ) -> None:
        assert shared_bytes(body) <= MAX_SHARED_BYTES, f"{name} has too much SHARED memory"
        self.inputs, self.outputs = list(inputs), list(outputs)
        self._body, self._header = body, header
        self._vectors = [name for name in self.inputs if name in vectors]
        # Compiled kernels are found by their name: another text has to have another one.
        digest = hashlib.sha256((header + "\0" + body).encode()).hexdigest()[:12]
        self.name = f"mlpot_{name}_{digest}"
        self._built: dict[tuple, Callable] = {}
        self._texts: dict[tuple, KernelText] = {}

    def body(self, dialect: Dialect, wide: bool = False) -> str:
        """Text between the braces of the kernel; ``wide``: offsets of 64 bits."""
        whole = for_any_start(self._body, self._vectors) if dialect == "cuda" else self._body
        return translate_body(whole, dialect, wide)

    def header(self, dialect: Dialect, wide: bool = False) -> str:
        """Text before the kernel."""
        return translate_header(self._header, dialect, wide)

    def cuda_text(
        self, inputs: Sequence[tuple[mx.Dtype, int]], outputs: Sequence[mx.Dtype], wide: bool
    ) -> KernelText:
        """The whole text for NVRTC.

        Args:
            inputs: type and number of dimensions of each.
            outputs: type of each.
            wide: offsets of 64 bits.
        """
        key = (wide, tuple(inputs), tuple(outputs))
        if key not in self._texts:
            self._texts[key] = kernel_text(
                self.name + ("_wide" if wide else ""),
                [(name, *kind) for name, kind in zip(self.inputs, inputs, strict=True)],
                list(zip(self.outputs, outputs, strict=True)),
                self.body("cuda", wide),
                self.header("cuda", wide),
            )
        return self._texts[key]

    def _build(self, dialect: Dialect, wide: bool, types: tuple[mx.Dtype, ...]) -> Callable:
        """The kernel as MLX compiles it."""
        key = (dialect, wide, types)
        found: Any = self._built.get(key)
        if found is None:
            make: Any = mx.fast.metal_kernel if dialect == "metal" else mx.fast.cuda_kernel
            digest = hashlib.sha256(repr(types).encode()).hexdigest()[:6]
            found = self._built[key] = make(
                name=f"{self.name}_{digest}" + ("_wide" if wide else ""),
                input_names=self.inputs,
                output_names=self.outputs,
                source=self.body(dialect, wide),
                header=self.header(dialect, wide),
            )
        return found

    def __call__(
        self,
        inputs: Sequence[mx.array],
        shapes: Sequence[tuple[int, ...]],
        dtypes: Sequence[mx.Dtype],
        blocks: Size,
        threads: Size,
    ) -> list[mx.array]:
        """Run on the GPU.

        Args:
            inputs: one array for each name, with at least one dimension and one element.
            shapes: of the outputs.
            dtypes: of the outputs.
            blocks: number of blocks, along x or along (x, y, z).
            threads: threads of a block, along x or along (x, y, z).

        Returns:
            The outputs; every element must be written by the body.

        Raises:
            ValueError: the grid is too large (ask `grid_refusal` first), or there is no GPU.
        """
        dialect = running_dialect()
        if dialect is None:
            raise ValueError(f"the kernel {self.name} needs a GPU, and there is none")
        refused = grid_refusal(blocks, threads)
        if refused:
            raise ValueError(f"the kernel {self.name} cannot run on {refused}")
        sizes = [*(a.size for a in inputs), *(math.prod(s) for s in shapes)]
        wide = max(sizes) >= WIDE_INDEX_FROM
        blocks, threads = _three(blocks), _three(threads)
        grid = (blocks[0] * threads[0], blocks[1] * threads[1], blocks[2] * threads[2])
        if dialect == "cuda":
            text = self.cuda_text(tuple((a.dtype, a.ndim) for a in inputs), tuple(dtypes), wide)
            code = compilation.machine_code(text)
            if code is not None:
                return mx.fast.precompiled_cuda_kernel(
                    name=text.name,
                    compiled_source=code,
                    inputs=list(inputs),
                    output_shapes=list(shapes),
                    output_dtypes=list(dtypes),
                    scalars=[inputs[number].shape[axis] for number, axis in text.sizes],
                    grid=grid,
                    threadgroup=threads,
                    ensure_row_contiguous=True,
                )
        types = tuple(a.dtype for a in inputs) + tuple(dtypes)
        return self._build(dialect, wide, types)(
            inputs=list(inputs),
            grid=grid,
            threadgroup=threads,
            output_shapes=list(shapes),
            output_dtypes=list(dtypes),
        )
