"""Expansion of a number in functions spread over an interval: the radial bases."""

from __future__ import annotations

import math
from typing import Literal

import mlx.core as mx
import numpy as np
from jaxtyping import Float

from mlpot import kernels

from .bessel import sine_bessel
from .smooth_step import smooth_bump

Basis = Literal["gaussian", "cosine", "smooth_finite", "fourier", "bessel"]
BASES = ("gaussian", "cosine", "smooth_finite", "fourier", "bessel")


def soft_one_hot_linspace(
    x: Float[mx.array, "*batch"],
    start: float,
    end: float,
    number: int,
    basis: Basis | None = None,
    cutoff: bool | None = None,
) -> Float[mx.array, "*batch number"]:
    """Values of ``number`` basis functions, sum of squares about 1 inside the interval.

    With centres c_i, step h and d_i = (x - c_i)/h:

        gaussian       exp(-d^2) / 1.12
        cosine         cos(pi d / 2) for |d| < 1, else 0
        smooth_finite  1.14136 exp(2 - 2/(1 - d^2)) for |d| < 1, else 0
        fourier        cos(i pi u) (i from 0), or with cutoff sin(i pi u) (i from 1) on
                       0 < u < 1; u = (x - start)/(end - start); over sqrt(1/4 + number/2)
        bessel         sqrt(2/c) sin(i pi t / c) / t, t = x - start, c = end - start

    Args:
        x: numbers, any unit.
        start: lower end of the interval, same unit.
        end: upper end.
        number: how many functions.
        basis: which functions.
        cutoff: True: all functions vanish at the ends and outside (gaussian only nearly).
            False: centres lie on the ends.

    Returns:
        (..., number).

    Raises:
        ValueError: unknown basis, no cutoff given, or an empty interval.
    """
    if basis not in BASES:
        raise ValueError(f"basis is {basis!r}; choose one of {', '.join(BASES)}")
    if cutoff not in (True, False):
        raise ValueError(f"cutoff is {cutoff!r}; give cutoff=True or cutoff=False")
    if not end > start:
        raise ValueError(f"the interval from {start} to {end} is empty; give start < end")
    if basis == "fourier":
        return _fourier((x[..., None] - start) / (end - start), number, cutoff)
    if basis == "bessel":
        return _bessel(x - start, end - start, number, cutoff)
    if number < 2 and not cutoff:
        raise ValueError(f"number is {number}; without cutoff give at least 2 functions")
    centres = np.linspace(start, end, number + 2 if cutoff else number)
    step = float(centres[1] - centres[0])
    if cutoff:
        centres = centres[1:-1]
    d = (x[..., None] - mx.array(centres, dtype=x.dtype)) / step
    if basis == "gaussian":
        return kernels.exp(-(d * d)) / 1.12
    if basis == "cosine":
        return mx.where(mx.abs(d) < 1.0, kernels.cos((math.pi / 2) * d), mx.zeros_like(d))
    return 1.14136 * smooth_bump(d)


def _fourier(u: mx.array, number: int, cutoff: bool) -> mx.array:
    scale = 1.0 / math.sqrt(0.25 + number / 2)
    first = 1 if cutoff else 0
    orders = mx.array(math.pi * np.arange(first, first + number), dtype=u.dtype)
    if not cutoff:
        return kernels.cos(orders * u) * scale
    inside = mx.logical_and(u > 0.0, u < 1.0)
    return mx.where(inside, kernels.sin(orders * u), mx.zeros((), dtype=u.dtype)) * scale


def _bessel(t: mx.array, width: float, number: int, cutoff: bool) -> mx.array:
    roots = mx.array(np.arange(1, number + 1) * (math.pi / width), dtype=t.dtype)
    values = sine_bessel(t, roots, math.sqrt(2.0 / width))
    if not cutoff:
        return values
    inside = mx.logical_and(t > 0.0, t < width)[..., None]
    return mx.where(inside, values, mx.zeros((), dtype=t.dtype))
