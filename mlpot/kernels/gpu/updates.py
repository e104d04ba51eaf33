"""Text of the kernels that move parameters: a thread for each number."""

from __future__ import annotations

from functools import cache

import mlx.core as mx

from .generated import GeneratedKernel, grid_refusal
from .refusals import refusal

THREADS = 256

_ADAM = f"""
    const int i = BLOCK_X * {THREADS} + THREAD_X;
    if (i < p_shape[0]) {{
        const float rate = numbers[0], root = numbers[1], kept = numbers[2];
        const float eps = numbers[7], slope = g[i];
        const float mean = numbers[3] * m[i] + numbers[4] * slope;
        const float square = numbers[5] * v[i] + numbers[6] * (slope * slope);
        p_out[i] = p[i] * kept - rate * mean / (SQRT(square) * root + eps);
        m_out[i] = mean;
        v_out[i] = square;
    }}
"""
_MIX = f"""
    const int i = BLOCK_X * {THREADS} + THREAD_X;
    if (i < x_shape[0]) out[i] = share[0] * x[i] + (1.0f - share[0]) * y[i];
"""


@cache
def _adam() -> GeneratedKernel:
    return GeneratedKernel(
        "adam", ["p", "g", "m", "v", "numbers"], ["p_out", "m_out", "v_out"], _ADAM
    )


@cache
def _mix() -> GeneratedKernel:
    return GeneratedKernel("mix", ["x", "y", "share"], ["out"], _MIX)


def update_refusal(*arrays: mx.array) -> str | None:
    """Why the kernels cannot take parameters of these sizes; None if they can."""
    blocks = -(-arrays[0].size // THREADS)
    return refusal(*arrays, types=(mx.float32,)) or grid_refusal(blocks, THREADS)


def adam_step(
    parameter: mx.array, gradient: mx.array, m: mx.array, v: mx.array, numbers: mx.array
) -> tuple[mx.array, mx.array, mx.array]:
    """A step of Adam for one array, see `mlpot.kernels.updates.adam_step`."""
    n, flat = parameter.size, [a.reshape(-1) for a in (parameter, gradient, m, v)]
    found = _adam()(
        [*flat, numbers], [(n,)] * 3, [mx.float32] * 3, blocks=-(-n // THREADS), threads=THREADS
    )
    p, m, v = (a.reshape(parameter.shape) for a in found)
    return p, m, v


def mix(x: mx.array, y: mx.array, share: mx.array) -> mx.array:
    """``share x + (1 - share) y``.

    Args:
        x: any shape, float32.
        y: same shape.
        share: one number.
    """
    n = x.size
    (out,) = _mix()(
        [x.reshape(-1), y.reshape(-1), share.reshape(1)],
        [(n,)],
        [mx.float32],
        blocks=-(-n // THREADS),
        threads=THREADS,
    )
    return out.reshape(x.shape)
