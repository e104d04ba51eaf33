"""How parameters are moved by a step of training: all of them by few kernels on GPUs; values only.

In plain MLX a step of Adam and of the running average is fifteen operations for each array of
parameters, and the norm of the gradient three, which a GPU waits for longer than it computes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import mlx.core as mx

from . import dispatch, gpu


class AdamResult(NamedTuple):
    """What a step of Adam leaves, lazily.

    Args:
        parameters: moved.
        m: running means of gradients.
        v: running means of their squares.
        averages: running averages of the parameters; empty if none were given.
        step: (), steps done.
        norm: (), of the gradient before clipping.
    """

    parameters: list[mx.array]
    m: list[mx.array]
    v: list[mx.array]
    averages: list[mx.array]
    step: mx.array
    norm: mx.array


def takes_adam(*arrays: mx.array) -> bool:
    """Whether kernels make the step of Adam for these parameters and gradients here."""
    offers = gpu.offers(lambda: gpu.update_refusal(*arrays))
    return dispatch.choose("adam", offers) in gpu.DIALECTS


def mix(x: Sequence[mx.array], y: Sequence[mx.array], share: mx.array) -> list[mx.array]:
    """``share x + (1 - share) y`` for many arrays, not differentiable.

    Args:
        x: any shapes.
        y: same shapes.
        share: (), one number.
    """
    offers = gpu.offers(lambda: gpu.update_refusal(*x, *y))
    if dispatch.choose("mix", offers) in gpu.DIALECTS:
        return gpu.mix(x, y, share.astype(mx.float32))
    mixed = []
    for one, other in zip(x, y, strict=True):
        part = share.astype(other.dtype)
        mixed.append(part * one + (1 - part) * other)
    return mixed


def adam(
    parameters: Sequence[mx.array],
    gradients: Sequence[mx.array],
    m: Sequence[mx.array],
    v: Sequence[mx.array],
    averages: Sequence[mx.array],
    step: mx.array,
    rate: mx.array,
    decay: mx.array,
    betas: Sequence[float],
    eps: float,
    weight_decay: float = 0.0,
    limit: float = math.inf,
) -> AdamResult:
    """A step of Adam with bias correction by kernels; ask `takes_adam` first.

    Args:
        parameters: any shapes, float32.
        gradients: same shapes.
        m: running means of gradients, same shapes.
        v: running means of their squares, same shapes.
        averages: running averages of the parameters, same shapes, or none.
        step: (), steps done so far, an integer.
        rate: (), learning rate.
        decay: (), of the running averages.
        betas: decays of m and v, at least 0 and below 1.
        eps: added to the root of v.
        weight_decay: decoupled decay of the parameters, times the learning rate.
        limit: largest norm of the gradient, which is scaled down to it.
    """
    # The logarithm of 0 would be minus infinity, which times 0 steps is no number.
    logs = [math.log(max(beta, 1e-30)) for beta in betas]
    options = gpu.AdamOptions(
        (logs[0], logs[1]),
        (betas[0], 1 - betas[0], betas[1], 1 - betas[1]),
        eps,
        weight_decay,
        limit,
    )
    numbers, counted, norm = gpu.adam_numbers(
        gradients, step, rate.astype(mx.float32), decay.astype(mx.float32), options
    )
    moved = gpu.adam_step(parameters, gradients, m, v, averages, numbers)
    return AdamResult(*moved, counted, norm)
