"""Elementary functions that are right in float32 and float64, with derivatives of any order.

MLX evaluates exp, sin, cos and sigmoid of float64 arrays with float32 accuracy; power, tan and
tanh are exact there. The plain float64 branches below are made of those. Derivatives never pass
through a square root of zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial

import mlx.core as mx
from jaxtyping import Float

from . import dispatch, gpu, native
from .primitive import unary


def _values(function: str, order: int, plain: Callable) -> Callable:
    """Values of a derivative from the kernel that takes the array, else from plain MLX."""
    name = function + (str(order) if order else "")

    def refusal_of_gpu(x):
        refused = gpu.activation_refusal(function, order, x)
        if refused is None and function in gpu.PLAIN_FUNCTIONS:
            return dispatch.Slower("one operation in plain MLX")
        return refused

    def value(x):
        offers: list[tuple[str, dispatch.Check]] = [*gpu.offers(lambda: refusal_of_gpu(x))]
        if name in native.ELEMENTARY_FUNCTIONS:
            offers.append(("native", lambda: native.refusal(x)))
        if not offers:
            return plain(x)  # made of functions that have kernels
        backend = dispatch.choose(f"elementary.{name}", offers)
        if backend == "native":
            return native.elementary(name, x)
        if backend in gpu.DIALECTS:
            return gpu.activation(function, order, x)
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


# Derivatives are made of values of the functions themselves, so that a kernel for these serves all.
def _sigmoid_derivative(order: int, x):
    s = _sigmoid_values(x)
    if order == 0:
        return s
    c = 1.0 - s
    d1 = s * c
    return (d1, d1 * (c - s), d1 * (1.0 - 6.0 * d1))[order - 1]


def _silu_derivative(order: int, x):
    return x * _sigmoid_derivative(order, x) + order * _sigmoid_derivative(order - 1, x)


def _tanh_derivative(order: int, x):
    t = _tanh_values(x)
    d = 1.0 - t * t
    return (d, -2.0 * t * d, d * (6.0 * t * t - 2.0))[order - 1]


_PLAIN = {
    "sigmoid": _plain_sigmoid,
    "silu": lambda x: x * _plain_sigmoid(x),
    "tanh": mx.tanh,
}
_sigmoid_values = _values("sigmoid", 0, _plain_sigmoid)
_tanh_values = _values("tanh", 0, mx.tanh)

_DERIVATIVES = {"sigmoid": _sigmoid_derivative, "silu": _silu_derivative, "tanh": _tanh_derivative}


@cache
def activation_derivative(function: str, order: int) -> Callable:
    """A derivative of silu, sigmoid or tanh; its own derivative is the next one of the family."""
    if order > gpu.LARGEST_ORDER:
        return _BEYOND[function]
    plain = _PLAIN[function] if order == 0 else partial(_DERIVATIVES[function], order)
    return unary(
        _values(function, order, plain), lambda x: activation_derivative(function, order + 1)(x)
    )


def _sigmoid4(x):
    s = sigmoid(x)
    d = s * (1.0 - s)
    return d * (1.0 - 2.0 * s) * (1.0 - 12.0 * d)


def _tanh4(x):
    t = tanh(x)
    return (1.0 - t * t) * t * (16.0 - 24.0 * t * t)


# The first derivatives beyond the kernels, of functions that have every derivative.
_BEYOND = {
    "sigmoid": _sigmoid4,
    "silu": lambda x: x * _sigmoid4(x) + 4.0 * activation_derivative("sigmoid", 3)(x),
    "tanh": _tanh4,
}

_exp = unary(_values("exp", 0, _plain_exp), lambda x: exp(x))
_sin = unary(_values("sin", 0, _plain_sin), lambda x: cos(x))
_cos = unary(_values("cos", 0, _plain_cos), lambda x: -sin(x))


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
    return activation_derivative("sigmoid", 0)(x)


def silu(x: Float[mx.array, "*shape"]) -> Float[mx.array, "*shape"]:
    """x sigmoid(x)."""
    return activation_derivative("silu", 0)(x)


def tanh(x: Float[mx.array, "*shape"]) -> Float[mx.array, "*shape"]:
    """Hyperbolic tangent."""
    return activation_derivative("tanh", 0)(x)
