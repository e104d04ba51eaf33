"""Functions that switch a distance off: 1 near the origin, 0 beyond a radius."""

from __future__ import annotations

import math

import mlx.core as mx
from jaxtyping import Float

from mlpot import kernels


def polynomial_cutoff(
    r: Float[mx.array, "*shape"], r_max: float, p: float = 6
) -> Float[mx.array, "*shape"]:
    """1 - (p+1)(p+2)/2 u^p + p(p+2) u^(p+1) - p(p+1)/2 u^(p+2), u = r/r_max.

    Value, slope and curvature vanish at r_max (class C2).
    Gasteiger, Gross and Guennemann (2020), equation 8.

    Args:
        r: distances, not negative.
        r_max: cutoff radius, same unit.
        p: order, at least 1; need not be an integer.

    Returns:
        As ``r``; exactly 0 from r_max on.

    Raises:
        ValueError: p below 1 or r_max not positive.
    """
    _check_radius(r_max)
    if p < 1:
        raise ValueError(f"p is {p}; the polynomial cutoff needs p >= 1")
    # Clamped, so that no power of a distant pair overflows; the gradient is masked below.
    u = mx.minimum(r / r_max, 1.0)
    if p == int(p):
        # The same polynomial without cancellation at u = 1: (1-u)^3 times the first p terms of
        # the binomial series of (1-u)^-3.
        series = _integer_series(u, int(p))
        value = (1.0 - u) * (1.0 - u) * (1.0 - u) * series
    else:
        a, b, c = (p + 1) * (p + 2) / 2, p * (p + 2), p * (p + 1) / 2
        value = 1.0 - mx.power(u, p) * (a - u * (b - c * u))
    return mx.where(r < r_max, value, mx.zeros_like(r))


def _integer_series(u: mx.array, p: int) -> mx.array | float:
    value: mx.array | float = p * (p + 1) / 2
    for k in range(p - 2, -1, -1):
        value = value * u + (k + 1) * (k + 2) / 2
    return value


def cosine_cutoff(r: Float[mx.array, "*shape"], r_max: float) -> Float[mx.array, "*shape"]:
    """(1 + cos(pi r / r_max)) / 2 below r_max, else 0 (class C1).

    Behler and Parrinello, Phys. Rev. Lett. 98, 146401 (2007), equation 4.

    Args:
        r: distances.
        r_max: cutoff radius, same unit.

    Raises:
        ValueError: r_max not positive.
    """
    _check_radius(r_max)
    value = 0.5 + 0.5 * kernels.cos((math.pi / r_max) * mx.minimum(r, r_max))
    return mx.where(r < r_max, value, mx.zeros_like(r))


def smooth_cutoff(u: Float[mx.array, "*shape"]) -> Float[mx.array, "*shape"]:
    """1 for u < 1/2, (1 - cos(2 pi u)) / 2 up to 1, then 0: e3nn's cutoff (class C1).

    Args:
        u: distance over cutoff radius.
    """
    inner = mx.clip(u, 0.5, 1.0)
    value = 0.5 - 0.5 * kernels.cos((2 * math.pi) * inner)
    return mx.where(u < 0.5, mx.ones_like(u), mx.where(u < 1.0, value, mx.zeros_like(u)))


def xplor_cutoff(
    r: Float[mx.array, "*shape"], r_on: float, r_max: float
) -> Float[mx.array, "*shape"]:
    """1 below r_on, then (rc^2-r^2)^2 (rc^2+2r^2-3 ron^2) / (rc^2-ron^2)^3, 0 from r_max = rc.

    Class C1: second derivatives jump at r_on and at r_max.

    Args:
        r: distances.
        r_on: where switching starts, same unit.
        r_max: cutoff radius.

    Raises:
        ValueError: not 0 <= r_on < r_max.
    """
    _check_radius(r_max)
    if not 0 <= r_on < r_max:
        raise ValueError(f"r_on is {r_on}; it must lie between 0 and r_max = {r_max}")
    span = r_max**2 - r_on**2
    # x = (rc^2 - r^2)/span runs from 1 to 0: the formula is x^2 (3 - 2x).
    x = (r_max - r) * (r_max + r) / span
    value = x * x * (3.0 - 2.0 * x)
    return mx.where(r < r_on, mx.ones_like(r), mx.where(r < r_max, value, mx.zeros_like(r)))


def _check_radius(r_max: float) -> None:
    if not r_max > 0:
        raise ValueError(f"r_max is {r_max}; the cutoff radius must be positive")
