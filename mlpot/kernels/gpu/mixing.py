"""Text of the kernels that scale rows of features by a number each and add them to others."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import mlx.core as mx

from .dialect import WORD_OF_TYPE
from .generated import GeneratedKernel, grid_refusal
from .refusals import refusal

THREADS = 256
#: Rows of a block of `dot`, each summed by a group of 32 threads.
ROWS_OF_DOT = 4


@cache
def _kernel(kind: str, dtype: mx.Dtype) -> GeneratedKernel:
    word = WORD_OF_TYPE[dtype]
    if kind == "dot":
        body = f"""
            const int row = BLOCK_X * {ROWS_OF_DOT} + WARP, columns = v_shape[1];
            float sum = 0.0f;
            if (row < v_shape[0]) {{
                const INDEX first = INDEX(row) * columns;
                for (int c = LANE; c < columns; c += 32)
                    sum += LOAD(mask, c) * (float(g[first + c]) * float(v[first + c]));
            }}
            sum = SIMD_SUM(sum);
            if (LANE == 0 && row < v_shape[0]) out[row] = {word}(sum);
        """
        return GeneratedKernel("mixing_dot", ["mask", "g", "v"], ["out"], body)
    rest = "m * factor" if kind == "scaled0" else "(1.0f - m) + m * factor"
    start = "float(own[at]) + " if kind == "added" else ""
    inputs = ["mask", *(["own"] if kind == "added" else []), "a", "v"]
    body = f"""
        const INDEX at = INDEX(BLOCK_X) * {THREADS} + THREAD_X;
        const int columns = v_shape[1];
        if (at < INDEX(v_shape[0]) * columns) {{
            const float factor = float(LOAD(a, at / columns)), m = LOAD(mask, at % columns);
            out[at] = {word}({start}({rest}) * float(v[at]));
        }}
    """
    return GeneratedKernel(f"mixing_{kind}", inputs, ["out"], body)


def _launch(kind: str, v: mx.array) -> tuple[int, int]:
    """Blocks, and threads of each."""
    if kind == "dot":
        return -(-v.shape[0] // ROWS_OF_DOT), 32 * ROWS_OF_DOT
    return -(-v.size // THREADS), THREADS


def mixing_refusal(kind: str, arrays: Sequence[mx.array]) -> str | None:
    """Why `mixing` cannot take these arguments; None if it can."""
    return refusal(*arrays) or grid_refusal(*_launch(kind, arrays[-1]))


def mixing(kind: str, mask: mx.array, arrays: Sequence[mx.array]) -> mx.array:
    """A map of `mlpot.kernels.Mixing`.

    Args:
        kind: "added", "scaled0", "scaled1" or "dot".
        mask: (d,), 1 in scaled columns, else 0; float32.
        arrays: own (n, d) for "added", a (n, 1), v (n, d); for "dot" g and v (n, d). float32,
            float16 or bfloat16, computed in float32.

    Returns:
        (n, d); (n, 1) for "dot".
    """
    v = arrays[-1]
    blocks, threads = _launch(kind, v)
    shape = (v.shape[0], 1) if kind == "dot" else tuple(v.shape)
    (out,) = _kernel(kind, v.dtype)(
        [mask, *arrays], [shape], [v.dtype], blocks=blocks, threads=threads
    )
    return out
