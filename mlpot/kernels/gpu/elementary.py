"""Elementary functions; activations with a kernel for each order of derivative.

With s = sigmoid(x), c = 1 - s = sigmoid(-x) and t = tanh(x)

    s' = s c,   s'' = s c (c - s),   s''' = s c (1 - 6 s c),
    (x s)^(k) = x s^(k) + k s^(k-1),
    t' = 1 - t^2,   t'' = -2 t (1 - t^2),   t''' = (1 - t^2) (6 t^2 - 2).

Both s and c are made from e^-|x|, so that neither loses digits where the other is close to 1.
"""

from __future__ import annotations

from functools import cache

import mlx.core as mx
from jaxtyping import Float

from .dialect import WORD_OF_TYPE
from .generated import GeneratedKernel, grid_refusal
from .refusals import refusal

#: Highest order of the derivative that has a kernel.
LARGEST_ORDER = 3
#: Functions that have all orders.
FUNCTIONS = ("sigmoid", "silu", "tanh")
#: Functions that have order 0 alone; each is one operation in plain MLX too.
PLAIN_FUNCTIONS = ("exp", "sin", "cos")
THREADS = 256

_LOGISTIC = """
const float e = EXP(-FABS(v));
const float small = e / (1.0f + e), large = 1.0f / (1.0f + e);
const float s = v < 0.0f ? small : large, c = v < 0.0f ? large : small;
const float d0 = s, d1 = s * c, d2 = d1 * (c - s), d3 = d1 * (1.0f - 6.0f * d1);
"""
# 1 - t^2 = 4 q / (1 + q)^2 with q = e^(-2 |x|).
_TANH = """
const float q = EXP(-2.0f * FABS(v)), t = TANH(v);
const float d = 4.0f * q / ((1.0f + q) * (1.0f + q));
"""
_TANH_VALUES = ("t", "d", "-2.0f * t * d", "d * (6.0f * t * t - 2.0f)")


def _value(function: str, order: int) -> tuple[str, str]:
    """Statements and the expression of the derivative at v."""
    if function in PLAIN_FUNCTIONS:
        return "", f"{function.upper()}(v)"
    if function == "tanh":
        return _TANH, _TANH_VALUES[order]
    if function == "sigmoid":
        return _LOGISTIC, f"d{order}"
    return _LOGISTIC, "v * d0" if order == 0 else f"v * d{order} + {order}.0f * d{order - 1}"


def derivative_function(function: str, order: int) -> str:
    """Text of the derivative as a helper ``<function>_<order>(v)`` for a header."""
    statements, value = _value(function, order)
    return f"FUNCTION float {function}_{order}(float v) {{{statements}return {value};}}\n"


@cache
def kernel(function: str, order: int, dtype: mx.Dtype) -> GeneratedKernel:
    """The kernel of a derivative, elementwise over an array ``x`` of a number type."""
    statements, value = _value(function, order)
    body = f"""
        INDEX size = 1;
        for (int axis = 0; axis < x_ndim; ++axis) size *= x_shape[axis];
        const int i = GLOBAL_X;
        if (i < size) {{
            const float v = float(x[i]);
            {statements}
            out[i] = {WORD_OF_TYPE[dtype]}({value});
        }}
    """
    return GeneratedKernel(f"{function}_{order}", ["x"], ["out"], body)


def activation_refusal(function: str, order: int, x: mx.array) -> str | None:
    """Why `activation` cannot take these arguments; None if it can."""
    if function not in (*FUNCTIONS, *PLAIN_FUNCTIONS):
        return f"{function} has no kernel"
    largest = 0 if function in PLAIN_FUNCTIONS else LARGEST_ORDER
    if order > largest:
        return f"derivatives of order {order} (the kernels of {function} end at {largest})"
    return refusal(x) or grid_refusal(-(-x.size // THREADS), THREADS)


def activation(
    function: str, order: int, x: Float[mx.array, "*shape"]
) -> Float[mx.array, "*shape"]:
    """Derivative of an activation, elementwise.

    Args:
        function: one of ``FUNCTIONS`` or ``PLAIN_FUNCTIONS``.
        order: 0 for the function itself, at most ``LARGEST_ORDER``; 0 for ``PLAIN_FUNCTIONS``.
        x: float32, float16 or bfloat16; computed in float32.
    """
    (out,) = kernel(function, order, x.dtype)(
        [x], [x.shape], [x.dtype], blocks=-(-x.size // THREADS), threads=THREADS
    )
    return out
