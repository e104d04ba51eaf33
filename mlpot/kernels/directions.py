"""Lengths and directions of vectors, with every derivative and none that is infinite.

With r = |v|, u = v / r, and for directions a_i the numbers p_i = u.a_i, q_ij = a_i.a_j,

    u                = v / r
    D u[a]           = (a - p u) / r
    D^2 u[a, b]      = (3 p_a p_b u - q_ab u - p_a b - p_b a) / r^2
    D^3 u[a, b, c]   = (sum_i (3 p_j p_k - q_jk) a_i
                        + (3 sum_i q_jk p_i - 15 p_a p_b p_c) u) / r^3

As u is the gradient of r, these tensors are symmetric in all their indices: they give the
derivatives of r too, and their own adjoints. A vector shorter than 1e-12 counts as having this
length and no direction: u = 0, and all derivatives are 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx
from jaxtyping import Float

from . import dispatch, gpu, native
from .row_map import RowMap

#: Shorter vectors have this length and no direction.
SHORTEST = 1e-12
#: Highest derivative of a direction that has kernels.
LARGEST_ORDER = gpu.LARGEST_ORDER


def _dot(a: mx.array, b: mx.array) -> mx.array:
    return mx.sum(a * b, axis=1, keepdims=True)


def _derivative(v: mx.array, a: Sequence[mx.array]) -> mx.array:
    """D^k u[a_1 .. a_k] in plain MLX, k <= 3; differentiable."""
    squared = _dot(v, v)
    short = squared < SHORTEST**2
    # Replaced before the root: a root of zero behind `where` still gives NaN.
    inverse = mx.rsqrt(mx.where(short, mx.ones_like(squared), squared))
    u = v * inverse
    p = [_dot(u, one) for one in a]
    if not a:
        value = u
    elif len(a) == 1:
        value = a[0] - p[0] * u
    elif len(a) == 2:
        value = (3.0 * p[0] * p[1] - _dot(*a)) * u - p[0] * a[1] - p[1] * a[0]
    else:
        q = [_dot(a[1], a[2]), _dot(a[0], a[2]), _dot(a[0], a[1])]
        factor = 3.0 * sum(q[i] * p[i] for i in range(3)) - 15.0 * p[0] * p[1] * p[2]
        value = factor * u
        for i, (j, k) in enumerate(((1, 2), (0, 2), (0, 1))):
            value = value + (3.0 * p[j] * p[k] - q[i]) * a[i]
    for _ in a:
        value = value * inverse
    return mx.where(short, mx.zeros_like(value), value)


def _length(v: mx.array) -> mx.array:
    squared = mx.sum(v * v, axis=1)
    short = squared < SHORTEST**2
    root = mx.sqrt(mx.where(short, mx.ones_like(squared), squared))
    return mx.where(short, mx.full(root.shape, SHORTEST, dtype=root.dtype), root)


def _plain(kind: str, order: int, arrays: Sequence[mx.array]) -> mx.array:
    """The maps in plain MLX; differentiable."""
    v, *a = arrays
    if kind == "direction":
        return _derivative(v, a) if order <= LARGEST_ORDER else _higher(v, a)
    if kind == "length":
        if not a:
            return _length(v)
        return mx.sum(_plain("direction", order - 1, [v, *a[:-1]]) * a[-1], axis=1)
    g, *a = a
    return g[:, None] * _plain("direction", order - 1, [v, *a])


def _higher(v: mx.array, a: Sequence[mx.array]) -> mx.array:
    """D^k u for k > 3 as forward derivatives of D^3 u."""

    def before(v: mx.array) -> mx.array:
        return _plain("direction", len(a) - 1, [v, *a[:-1]])

    return mx.jvp(before, [v], [a[-1]])[1][0]


def _values(kind: str, order: int, arrays: Sequence[mx.array]) -> mx.array:
    """A map from the backend that takes it.

    Args:
        kind: ``direction``: D^order u; ``length``: D^order r; ``length_adjoint``: g D^(order-1) u.
        order: of the derivative.
        arrays: v, for ``length_adjoint`` g, and the directions.
    """
    if order > LARGEST_ORDER:
        return _plain(kind, order, arrays)  # beyond the rules: of operations with every derivative
    offers: tuple[tuple[str, dispatch.Check], ...] = (
        *gpu.offers(lambda: gpu.directions_refusal(arrays)),
        ("native", lambda: native.refusal(*arrays)),
    )
    backend = dispatch.choose(f"{kind}.{order}", offers)
    if backend == "native":
        return native.directions(kind, order, arrays)
    if backend in gpu.DIALECTS:
        return gpu.directions(kind, order, arrays)
    return _plain(kind, order, arrays)


def _adjoint_of_direction(order: int, arrays: Sequence[mx.array], _index) -> mx.array:
    v, g, *a = arrays
    return _values("direction", order, [v, *a, g])


_DIRECTION = RowMap(
    lambda order, arrays, _: _values("direction", order, arrays),
    _adjoint_of_direction,
    LARGEST_ORDER,
)
_LENGTH = RowMap(
    lambda order, arrays, _: _values("length", order, arrays),
    lambda order, arrays, _: _values("length_adjoint", order, arrays),
    LARGEST_ORDER,
)


def _check(vectors: mx.array) -> None:
    if vectors.ndim != 2 or vectors.shape[1] != 3:
        raise ValueError(f"vectors have the shape {tuple(vectors.shape)}, not (n, 3)")


def lengths(vectors: Float[mx.array, "n 3"]) -> Float[mx.array, " n"]:
    """Lengths, at least 1e-12, with every derivative (zero for shorter vectors).

    Args:
        vectors: (n, 3), any unit.

    Returns:
        (n,), same unit.

    Raises:
        ValueError: another shape.
    """
    _check(vectors)
    return _LENGTH(vectors) if vectors.size else mx.zeros((vectors.shape[0],), vectors.dtype)


def directions(vectors: Float[mx.array, "n 3"]) -> Float[mx.array, "n 3"]:
    """Vectors over their lengths, zero for those shorter than 1e-12; every derivative.

    Args:
        vectors: (n, 3), any unit.

    Returns:
        (n, 3).

    Raises:
        ValueError: another shape.
    """
    _check(vectors)
    return _DIRECTION(vectors) if vectors.size else vectors
