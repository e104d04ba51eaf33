"""Real harmonic polynomials of a vector, a primitive closed under differentiation.

The derivative of a harmonic polynomial of degree l is a combination of those of degree l - 1,

    d Y_l / d x_k = G_l[:, k, :] Y_(l-1),    G_l proportional to the 3j symbols (l, 1, l-1),

and Euler's theorem on homogeneous functions gives the values from the same tables,

    Y_l = 1/l sum_k x_k G_l[:, k, :] Y_(l-1).

So the values are a chain of small matrix products, and a derivative in either mode is one more
product with values that are known already. Polynomials: finite everywhere, zero included.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import sqrt

import mlx.core as mx
import numpy as np
from jaxtyping import Float

from mlpot.kernels import Constant
from mlpot.kernels.primitive import as_tuple

from .wigner3j import wigner_3j_numpy

# Degrees up to this one share one dense table of derivatives: one product instead of several
# small ones. Beyond it the zeros between degrees would cost more than the calls.
_LARGEST_SHARED_DEGREE = 3


def solid_harmonics(
    lmax: int, x: Float[mx.array, "n_vectors 3"]
) -> Float[mx.array, "n_vectors components"]:
    """Harmonic polynomials of all degrees 0..lmax, in component normalisation.

    |Y_l|^2 = (2l+1) |x|^(2l); order m = -l..l, polar axis y, Y_1 = sqrt(3) (x, y, z).

    Args:
        lmax: largest degree.
        x: (n_vectors, 3).

    Returns:
        (n_vectors, (lmax + 1)^2), the components of degree l at l^2..(l+1)^2 - 1.
    """
    return _solid_harmonics(lmax)(x)


@cache
def _solid_harmonics(lmax: int) -> Callable[[mx.array], mx.array]:
    @mx.custom_function
    def function(x):
        return _values(lmax, mx.stop_gradient(x))

    @function.vjp
    def _(x, cotangent, output):
        (x,), (cotangent,), (output,) = as_tuple(x), as_tuple(cotangent), as_tuple(output)
        if lmax == 0:
            return mx.zeros_like(x)
        return _pull_back(lmax, output, cotangent)

    @function.jvp
    def _(x, tangent):
        (x,), (tangent,) = as_tuple(x), as_tuple(tangent)
        if lmax == 0:
            return mx.zeros((x.shape[0], 1), dtype=x.dtype)
        return _push_forward(lmax, solid_harmonics(lmax - 1, x), tangent)

    return function  # pyright: ignore[reportReturnType]


def _values(lmax: int, x: mx.array) -> mx.array:
    # Vectors run along the last axis: products with small tables are then long rows.
    rows = x.T
    values = [mx.ones((1, x.shape[0]), dtype=x.dtype)]
    for l in range(1, lmax + 1):
        terms = rows[:, None, :] * values[-1]
        table = _step(l)(x.dtype)
        values.append(table @ terms.reshape(3 * (2 * l - 1), -1))
    return mx.concatenate(values, axis=0).T


def _pull_back(lmax: int, values: mx.array, cotangent: mx.array) -> mx.array:
    """(n_vectors, 3): derivative of sum(cotangent * Y) from the values of Y."""
    groups = _groups(lmax)
    lower = mx.split(values.T, [high * high for _, high in groups], axis=0)
    upper = mx.split(cotangent.T, [low * low for low, _ in groups], axis=0)
    total = None
    for (low, high), below, weights in zip(groups, lower[:-1], upper[1:], strict=True):
        table = _derivative_table(low, high, False)(values.dtype)
        part = mx.sum((table @ weights).reshape(3, below.shape[0], -1) * below, axis=1)
        total = part if total is None else total + part
    assert total is not None
    return total.T


def _push_forward(lmax: int, values: mx.array, tangent: mx.array) -> mx.array:
    """(n_vectors, components): change of Y along ``tangent`` from the values below lmax."""
    groups = _groups(lmax)
    lower = mx.split(values.T, [high * high for _, high in groups[:-1]], axis=0)
    rows = tangent.T[:, None, :]
    parts = [mx.zeros((1, values.shape[0]), dtype=values.dtype)]
    for (low, high), below in zip(groups, lower, strict=True):
        table = _derivative_table(low, high, True)(values.dtype)
        parts.append(table @ (rows * below).reshape(table.shape[1], -1))
    return mx.concatenate(parts, axis=0).T


def _groups(lmax: int) -> list[tuple[int, int]]:
    """Ranges of degrees (first, last) that share a table of derivatives."""
    shared = min(lmax, _LARGEST_SHARED_DEGREE)
    return [(1, shared), *((l, l) for l in range(shared + 1, lmax + 1))]


@cache
def _gradient(l: int) -> np.ndarray:
    """(2l+1, 3, 2l-1) table G_l, scaled to the values sqrt(2l+1) at the pole (0, 1, 0)."""
    symbols = wigner_3j_numpy(l, 1, l - 1)
    return symbols * (l * sqrt((2 * l + 1) / (2 * l - 1)) / symbols[l, 1, l - 1])


@cache
def _step(l: int) -> Constant:
    return Constant(_gradient(l).reshape(2 * l + 1, -1) / l)


@cache
def _derivative_table(low: int, high: int, forward: bool) -> Constant:
    """G of degrees low..high as (components, 3 lower components), transposed if not forward."""
    n_lower = high * high - (low - 1) ** 2
    table = np.zeros(((high + 1) ** 2 - low * low, 3, n_lower))
    for l in range(low, high + 1):
        rows = slice(l * l - low * low, (l + 1) ** 2 - low * low)
        columns = slice((l - 1) ** 2 - (low - 1) ** 2, l * l - (low - 1) ** 2)
        table[rows, :, columns] = _gradient(l)
    table = table.reshape(table.shape[0], -1)
    return Constant(table if forward else np.ascontiguousarray(table.T))
