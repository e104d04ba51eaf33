"""How parameters are moved by a step of training: one kernel an array on GPUs; values only.

In plain MLX a step of Adam and of the running average is fifteen operations for each array of
parameters, which a GPU waits for longer than it computes.
"""

from __future__ import annotations

import mlx.core as mx

from . import dispatch, gpu


def takes_adam(parameter: mx.array, gradient: mx.array) -> bool:
    """Whether a kernel makes the step of Adam for these arrays here."""
    offers = gpu.offers(lambda: gpu.update_refusal(parameter, gradient))
    return dispatch.choose("adam", offers) in gpu.DIALECTS


def mix(x: mx.array, y: mx.array, share: mx.array) -> mx.array:
    """``share x + (1 - share) y``, not differentiable.

    Args:
        x: any shape.
        y: same shape.
        share: (), one number.
    """
    offers = gpu.offers(lambda: gpu.update_refusal(x, y))
    if dispatch.choose("mix", offers) in gpu.DIALECTS:
        return gpu.mix(x, y, share.astype(mx.float32))
    share = share.astype(y.dtype)
    return share * x + (1 - share) * y


def adam_step(
    parameter: mx.array, gradient: mx.array, m: mx.array, v: mx.array, numbers: mx.array
) -> tuple[mx.array, mx.array, mx.array]:
    """A step of Adam for one array by a kernel; ask `takes_adam` first.

    Args:
        parameter: any shape, float32.
        gradient: same shape.
        m: running mean of gradients, same shape.
        v: running mean of their squares, same shape.
        numbers: (8,) learning rate over the correction of m, factor of the root of v, factor of the
            parameter (1 without decay), beta1, 1 - beta1, beta2, 1 - beta2, epsilon.

    Returns:
        The new parameter, m and v.
    """
    return gpu.adam_step(parameter, gradient, m, v, numbers)
