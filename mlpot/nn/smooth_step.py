"""Functions that are smooth everywhere and exactly zero outside an interval.

    soft_unit_step(x) = exp(-1/x)          for x > 0, else 0
    smooth_bump(d)    = exp(-2 d^2/(1-d^2))  for |d| < 1, else 0

The derivatives that automatic differentiation finds are products of huge and tiny numbers, and
NaN from second order on. Here the n-th derivative is a function of its own, a polynomial times
the exponential, whose derivative is the next member of the family.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import mlx.core as mx
import numpy as np
from jaxtyping import Float
from numpy.polynomial.polynomial import polyadd, polyder, polymul, polysub

from mlpot import kernels

# Where the exponential is below the smallest positive number whatever stands before it; the
# reciprocals there stay finite up to high orders.
_CLAMP = {mx.float64: 1.25e-3, mx.float32: 8e-3}


def _clamp(dtype: mx.Dtype) -> float:
    return _CLAMP.get(dtype, 8e-3)


def _horner(coefficients: np.ndarray, x: mx.array) -> mx.array | float:
    """Polynomial with coefficients in rising order."""
    value: mx.array | float = float(coefficients[-1])
    for c in coefficients[-2::-1]:
        value = value * x + float(c) if c else value * x
    return value


@functools.cache
def _step_polynomial(n: int) -> np.ndarray:
    """P_n with d^n/dx^n exp(-1/x) = P_n(x) x^-2n exp(-1/x)."""
    if n == 0:
        return np.ones(1)
    p, m = _step_polynomial(n - 1), n - 1
    # (P x^-2m e)' = (P' x^2 - 2m x P + P) x^-2(m+1) e
    return polyadd(polymul([0, 0, 1], polyder(p)), polymul([1, -2 * m], p))


@functools.cache
def _bump_polynomial(n: int) -> np.ndarray:
    """P_n with d^n/dd^n exp(-2d^2/q) = P_n(d) q^-2n exp(-2d^2/q), q = 1 - d^2."""
    if n == 0:
        return np.ones(1)
    p, m, q = _bump_polynomial(n - 1), n - 1, np.array([1.0, 0, -1])
    # (P q^-2m e)' = (P' q^2 + 4 m d q P - 4 d P) q^-2(m+1) e
    slope = polymul(polymul(q, q), polyder(p))
    return polyadd(slope, polymul(polysub(4 * m * polymul([0, 1], q), [0, 4]), p))


def _power(x: mx.array, n: int) -> mx.array:
    """x^n for n >= 1 by repeated squaring."""
    result = None
    while n:
        if n & 1:
            result = x if result is None else result * x
        x = x * x
        n >>= 1
    assert result is not None
    return result


@functools.cache
def _step(n: int) -> Callable:
    """The n-th derivative of soft_unit_step."""

    def value(x):
        low = _clamp(x.dtype)
        inverse = 1.0 / mx.maximum(x, low)
        result = kernels.exp(-inverse)
        if n:
            result = result * _power(inverse, 2 * n) * _horner(_step_polynomial(n), x)
        return mx.where(x > low, result, mx.zeros_like(x))

    return kernels.unary(value, lambda x: _step(n + 1)(x))


@functools.cache
def _bump(n: int) -> Callable:
    """The n-th derivative of smooth_bump."""

    def value(d):
        low = _clamp(d.dtype)
        q = (1.0 - d) * (1.0 + d)
        inverse = 1.0 / mx.maximum(q, low)
        result = kernels.exp(-2.0 * d * d * inverse)
        if n:
            result = result * _power(inverse, 2 * n) * _horner(_bump_polynomial(n), d)
        return mx.where(q > low, result, mx.zeros_like(d))

    return kernels.unary(value, lambda d: _bump(n + 1)(d))


def soft_unit_step(x: Float[mx.array, "*shape"]) -> Float[mx.array, "*shape"]:
    """exp(-1/x) for x > 0, else 0; every derivative is continuous and finite."""
    return _step(0)(x)


def smooth_bump(d: Float[mx.array, "*shape"]) -> Float[mx.array, "*shape"]:
    """exp(-2 d^2 / (1 - d^2)) for |d| < 1, else 0: 1 at d = 0.

    This is e^2 soft_unit_step(1 + d) soft_unit_step(1 - d), written as one function.
    """
    return _bump(0)(d)
