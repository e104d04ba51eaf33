"""Elementary functions that are right in float32 and float64, with derivatives of any order.

MLX evaluates exp, sin, cos and sigmoid of float64 arrays with float32 accuracy; power, tan and
tanh are exact there. The float64 branches below are made of those. Derivatives never pass
through a square root of zero.
"""

from __future__ import annotations

import math

import mlx.core as mx
from jaxtyping import Float

from .primitive import unary

# A power keeps its relative accuracy where e^x is tiny; expm1(x) + 1 does not.
_exp64 = unary(lambda x: mx.power(mx.array(math.e, dtype=mx.float64), x), lambda x: exp(x))


def _sin64_value(x):
    t = mx.tan(x * 0.5)
    return 2.0 * t / (1.0 + t * t)


def _cos64_value(x):
    t = mx.tan(x * 0.5)
    return (1.0 - t * t) / (1.0 + t * t)


_sin64 = unary(_sin64_value, lambda x: cos(x))
_cos64 = unary(_cos64_value, lambda x: -sin(x))


def exp(x: Float[mx.array, "*shape"]) -> Float[mx.array, "*shape"]:
    """e^x; float64 to a relative 1e-15 times the larger of 1 and abs(x)."""
    return _exp64(x) if x.dtype == mx.float64 else mx.exp(x)


def sin(x: Float[mx.array, "*shape"]) -> Float[mx.array, "*shape"]:
    """sin x, x in radians."""
    return _sin64(x) if x.dtype == mx.float64 else mx.sin(x)


def cos(x: Float[mx.array, "*shape"]) -> Float[mx.array, "*shape"]:
    """cos x, x in radians."""
    return _cos64(x) if x.dtype == mx.float64 else mx.cos(x)


def sigmoid(x: Float[mx.array, "*shape"]) -> Float[mx.array, "*shape"]:
    """1 / (1 + e^-x)."""
    return 0.5 + 0.5 * mx.tanh(0.5 * x) if x.dtype == mx.float64 else mx.sigmoid(x)


def silu(x: Float[mx.array, "*shape"]) -> Float[mx.array, "*shape"]:
    """x sigmoid(x)."""
    return x * sigmoid(x)


def tanh(x: Float[mx.array, "*shape"]) -> Float[mx.array, "*shape"]:
    """Hyperbolic tangent."""
    return mx.tanh(x)


def safe_norm(
    vectors: Float[mx.array, "*batch 3"], minimum: float = 1e-12
) -> Float[mx.array, "*batch"]:
    """Length of vectors, with finite derivatives (zero) for the zero vector.

    Args:
        vectors: (..., 3), any unit.
        minimum: lengths below this are treated as constant, same unit.

    Returns:
        (...) lengths, at least ``minimum``.
    """
    # The argument is clamped before the root: a root behind `where` still gives NaN.
    squared = mx.sum(vectors * vectors, axis=-1)
    small = squared < minimum * minimum
    return mx.sqrt(mx.where(small, mx.full(squared.shape, minimum**2, squared.dtype), squared))
