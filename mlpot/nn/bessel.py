"""Sine-Bessel functions with their exact limit at the origin."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import mlx.core as mx
import numpy as np
from jaxtyping import Float

from mlpot import kernels


def _series(n: int, u: mx.array) -> mx.array:
    """Taylor series of the n-th derivative of sin(u)/u, right to float64 for |u| < 1.

    sin(u)/u = sum_k (-1)^k u^2k / (2k+1)!.
    """
    first = (n + 1) // 2
    terms = [
        (-1) ** k / ((2 * k + 1) * math.factorial(2 * k - n)) for k in range(first, first + 10)
    ]
    square = u * u
    value = mx.full(u.shape, terms[-1], dtype=u.dtype)
    for term in terms[-2::-1]:
        value = value * square + term
    return value * u if n % 2 else value


@functools.cache
def _sinc(n: int) -> Callable:
    """The n-th derivative of sin(u)/u."""

    def value(u):
        small = mx.abs(u) < 1.0
        safe = mx.where(small, mx.ones_like(u), u)
        # u s_n + n s_(n-1) = sin^(n)(u)
        sine, cosine = kernels.sin(safe), kernels.cos(safe) if n else None
        cycle = [sine, cosine, -sine, -cosine] if cosine is not None else [sine]
        result = sine / safe
        for m in range(1, n + 1):
            result = (cycle[m % 4] - m * result) / safe
        return mx.where(small, _series(n, u), result)

    def plain(u):
        # The value itself needs no series: sin(u)/u is exact for every u that is not 0.
        zero = u == 0.0
        safe = mx.where(zero, mx.ones_like(u), u)
        return mx.where(zero, mx.ones_like(u), kernels.sin(safe) / safe)

    return kernels.unary(value if n else plain, lambda u: _sinc(n + 1)(u))


def sinc(u: Float[mx.array, "*shape"]) -> Float[mx.array, "*shape"]:
    """sin(u)/u, 1 at u = 0, with exact derivatives of every order there too."""
    return _sinc(0)(u)


def sine_bessel(
    r: Float[mx.array, "*batch"],
    frequencies: Float[mx.array, " n_functions"],
    prefactor: float,
) -> Float[mx.array, "*batch n_functions"]:
    """Functions prefactor * sin(w_n r) / r, and prefactor * w_n at r = 0.

    Gasteiger, Gross and Guennemann, "Directional message passing for molecular graphs" (2020),
    equation 7. Differentiable in r and in the frequencies.

    Args:
        r: distances.
        frequencies: (n_functions,) w_n, in 1/length; n pi / r_max unless trained.
        prefactor: sqrt(2 / r_max) for functions orthonormal on [0, r_max], 2 / r_max in the
            NequIP family.

    Returns:
        (..., n_functions).
    """
    return (prefactor * frequencies) * sinc(r[..., None] * frequencies)


def bessel(x: Float[mx.array, "*batch"], n: int, x_max: float = 1.0) -> Float[mx.array, "*batch n"]:
    """The first n functions sqrt(2/x_max) sin(k pi x / x_max) / x, k = 1..n.

    Args:
        x: distances.
        n: number of functions.
        x_max: length of the interval on which they are orthonormal.

    Returns:
        (..., n); the limit at x = 0.
    """
    roots = np.arange(1, n + 1) * (math.pi / x_max)
    return sine_bessel(x, mx.array(roots, dtype=x.dtype), math.sqrt(2.0 / x_max))
