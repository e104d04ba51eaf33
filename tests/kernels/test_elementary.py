"""Elementary functions and their derivatives of any order, against Cauchy's integral formula."""

from __future__ import annotations

from math import factorial

import mlx.core as mx
import numpy as np
import pytest

from mlpot import kernels

FUNCTIONS = {
    "exp": np.exp,
    "sin": np.sin,
    "cos": np.cos,
    "sigmoid": lambda z: 1 / (1 + np.exp(-z)),
    "silu": lambda z: z / (1 + np.exp(-z)),
    "tanh": np.tanh,
}
X = np.linspace(-4.0, 4.0, 41)


def derivative(function: str, order: int) -> np.ndarray:
    """On a circle around each point, within the region of analyticity."""
    angles = 2 * np.pi * np.arange(128) / 128
    values = FUNCTIONS[function](X[:, None] + np.exp(1j * angles))
    return factorial(order) * np.mean(values * np.exp(-1j * order * angles), axis=1).real


def differentiated(function: str, order: int):
    found = getattr(kernels, function)
    for _ in range(order):
        found = lambda x, f=found: mx.grad(lambda q: f(q).sum())(x)  # noqa: E731
    return found


@pytest.mark.parametrize("backend", ["reference", "auto"])
@pytest.mark.parametrize("order", range(6))
@pytest.mark.parametrize("function", FUNCTIONS)
def test_derivatives(function, order, backend):
    wanted = derivative(function, order)
    scale = np.abs(wanted).max()
    with mx.stream(mx.cpu), kernels.use(backend):
        for dtype, tolerance in ((mx.float64, 1e-12), (mx.float32, 2e-6)):
            found = np.array(differentiated(function, order)(mx.array(X, dtype=dtype)))
            assert np.abs(found - wanted).max() < tolerance * scale


@pytest.mark.parametrize("function", ["sigmoid", "silu", "tanh"])
def test_forward_and_reverse_agree(function):
    x, v = mx.array(X, dtype=mx.float64), mx.array(np.cos(X), dtype=mx.float64)
    with mx.stream(mx.cpu):
        once = differentiated(function, 1)
        forward = np.array(mx.jvp(once, [x], [v])[1][0])
        reverse = np.array(mx.grad(lambda q: (once(q) * v).sum())(x))
        twice = np.array(mx.jvp(lambda q: mx.jvp(once, [q], [v])[1][0], [x], [v])[1][0])
    assert np.abs(forward - reverse).max() < 1e-15
    assert np.abs(twice - derivative(function, 3) * np.array(v) ** 2).max() < 1e-12


@pytest.mark.parametrize("function", ["sigmoid", "silu", "tanh"])
def test_large_arguments(function):
    x = mx.array([-800.0, -90.0, 90.0, 800.0], dtype=mx.float64)
    with mx.stream(mx.cpu):
        for order in range(5):
            found = np.array(differentiated(function, order)(x))
            wanted = {
                0: {"sigmoid": [0, 0, 1, 1], "silu": [0, 0, 90, 800], "tanh": [-1, -1, 1, 1]},
                1: {"sigmoid": [0] * 4, "silu": [0, 0, 1, 1], "tanh": [0] * 4},
            }.get(order, dict.fromkeys(FUNCTIONS, [0] * 4))[function]
            assert np.abs(found - wanted).max() < 1e-12
