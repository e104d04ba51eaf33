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


class AdamOptions(NamedTuple):
    """What does not change from step to step.

    Args:
        betas: decays of the running means of gradients and their squares, 0 at least, below 1.
        eps: added to the root of the squares' mean.
        weight_decay: decoupled decay of the parameters, times the learning rate.
        limit: largest norm of the gradient, which is scaled down to it.
    """

    betas: tuple[float, ...]
    eps: float
    weight_decay: float = 0.0
    limit: float = math.inf


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


def takes_muon(layout: gpu.MuonLayout, *arrays: mx.array) -> bool:
    """Whether kernels make the step of Muon for these parameters and gradients here."""
    offers = gpu.offers(lambda: gpu.update_refusal(*arrays) or gpu.muon_refusal(layout))
    return dispatch.choose("muon", offers) in gpu.DIALECTS


def step_numbers(
    gradients: Sequence[mx.array],
    step: mx.array,
    rate: mx.array,
    decay: mx.array,
    options: AdamOptions,
) -> tuple[mx.array, mx.array, mx.array]:
    """What the kernels of a step share; ask `takes_adam` or `takes_muon` first.

    Args:
        gradients: all of them, float32.
        step: (), steps done so far, an integer.
        rate: (), learning rate.
        decay: (), of running averages.
        options: of Adam.

    Returns:
        (10,) learning rate over the correction of m, factor of the root of v, factor of the
        parameter (1 without decay), beta1, 1 - beta1, beta2, 1 - beta2, epsilon, factor of the
        gradient and decay of running averages; the steps done now; the norm of the gradient.
    """
    # The logarithm of 0 would be minus infinity, which times 0 steps is no number.
    logs = [math.log(max(beta, 1e-30)) for beta in options.betas]
    b1, b2 = options.betas
    fixed = [*logs, b1, 1 - b1, b2, 1 - b2, options.eps, options.weight_decay, options.limit]
    rate, decay = rate.astype(mx.float32), decay.astype(mx.float32)
    return gpu.step_numbers(gradients, step, rate, decay, fixed)


def adam(
    parameters: Sequence[mx.array],
    gradients: Sequence[mx.array],
    m: Sequence[mx.array],
    v: Sequence[mx.array],
    averages: Sequence[mx.array],
    numbers: mx.array,
) -> tuple[list[mx.array], list[mx.array], list[mx.array], list[mx.array]]:
    """A step of Adam with bias correction by kernels; ask `takes_adam` first.

    Args:
        parameters: any shapes, float32.
        gradients: same shapes.
        m: running means of gradients, same shapes.
        v: running means of their squares, same shapes.
        averages: running averages of the parameters, same shapes, or none.
        numbers: of `step_numbers`.

    Returns:
        The new parameters, m, v and averages (none if none are given).
    """
    return gpu.adam_step(parameters, gradients, m, v, averages, numbers)
