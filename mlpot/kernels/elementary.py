"""Elementary functions that are right in float32 and float64, with derivatives of any order.

MLX evaluates exp, sin, cos and sigmoid of float64 arrays with float32 accuracy; power, tan and
tanh are exact there. The plain float64 branches below are made of those. Derivatives never pass
through a square root of zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import mlx.core as mx
from jaxtyping import Float

from . import dispatch, native
from .primitive import unary


def _values(name: str, plain: Callable) -> Callable:
    """Values from the native kernel where it takes the array, else from plain MLX."""

    def value(x):
        offers = (("native", lambda: native.refusal(x)),)
        if dispatch.choose(f"elementary.{name}", offers) == "native":
            return native.elementary(name, x)
        return plain(x)

    return value


def _plain_exp(x):
    # A power keeps its relative accuracy where e^x is tiny; expm1(x) + 1 does not.
    return mx.power(mx.array(math.e, dtype=mx.float64), x) if x.dtype == mx.float64 else mx.exp(x)


def _plain_sin(x):
    if x.dtype != mx.float64:
        return mx.sin(x)
    t = mx.tan(x * 0.5)
    return 2.0 * t / (1.0 + t * t)


def _plain_cos(x):
    if x.dtype != mx.float64:
        return mx.cos(x)
    t = mx.tan(x * 0.5)
    return (1.0 - t * t) / (1.0 + t * t)


def _plain_sigmoid(x):
    return 0.5 + 0.5 * mx.tanh(0.5 * x) if x.dtype == mx.float64 else mx.sigmoid(x)


def _silu2(x):
    s = sigmoid(x)
    return s * (1.0 - s) * (2.0 + x * (1.0 - 2.0 * s))


def _plain_silu1(x):
    s = _plain_sigmoid(x)
    return s * (1.0 + x * (1.0 - s))


_exp = unary(_values("exp", _plain_exp), lambda x: exp(x))
_sin = unary(_values("sin", _plain_sin), lambda x: cos(x))
_cos = unary(_values("cos", _plain_cos), lambda x: -sin(x))
_tanh = unary(_values("tanh", mx.tanh), lambda x: 1.0 - tanh(x) * tanh(x))
_sigmoid = unary(_values("sigmoid", _plain_sigmoid), lambda x: sigmoid(x) * (1.0 - sigmoid(x)))
_silu1 = unary(_values("silu1", _plain_silu1), _silu2)
_silu = unary(_values("silu", lambda x: x * _plain_sigmoid(x)), _silu1)


def exp(x: Float[mx.array, "*shape"]) -> Float[mx.array, "*shape"]:
    """e^x; float64 to a relative 1e-15 times the larger of 1 and abs(x)."""
    return _exp(x)


def sin(x: Float[mx.array, "*shape"]) -> Float[mx.array, "*shape"]:
    """sin x, x in radians."""
    return _sin(x)


def cos(x: Float[mx.array, "*shape"]) -> Float[mx.array, "*shape"]:
    """cos x, x in radians."""
    return _cos(x)


def sigmoid(x: Float[mx.array, "*shape"]) -> Float[mx.array, "*shape"]:
    """1 / (1 + e^-x)."""
    return _sigmoid(x)


def silu(x: Float[mx.array, "*shape"]) -> Float[mx.array, "*shape"]:
    """x sigmoid(x)."""
    return _silu(x)


def tanh(x: Float[mx.array, "*shape"]) -> Float[mx.array, "*shape"]:
    """Hyperbolic tangent."""
    return _tanh(x)


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
