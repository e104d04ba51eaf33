"""Every nesting of forward and reverse mode, compared with each other and with differences."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import mlx.core as mx
import numpy as np

Scalar = Callable[[mx.array], mx.array]


def reverse(function: Scalar, direction: mx.array) -> Scalar:
    """Derivative of a number along a direction, by reverse mode."""
    return lambda x: mx.sum(mx.grad(function)(x) * direction)


def forward(function: Scalar, direction: mx.array) -> Scalar:
    """Derivative of a number along a direction, by forward mode."""
    return lambda x: mx.jvp(function, [x], [direction])[1][0]


def difference(function: Scalar, direction: mx.array, step: float) -> Scalar:
    """Derivative of a number along a direction, by central differences of fourth order."""

    def derivative(x: mx.array) -> mx.array:
        values = [function(x + k * step * direction) for k in (-2, -1, 1, 2)]
        return (values[0] - 8.0 * values[1] + 8.0 * values[2] - values[3]) / (12.0 * step)

    return derivative


def check_nestings(
    function: Callable[[mx.array], mx.array],
    x: np.ndarray,
    *,
    step: float = 1e-3,
    tolerance: float = 1e-7,
    agreement: float = 1e-11,
    seed: int = 0,
) -> None:
    """Asserts that derivatives of order 1 to 3 are the same by every nesting, and right.

    Args:
        function: from an array to an array, float64.
        x: where.
        step: of finite differences.
        tolerance: how far differences may be off, relative to the derivative or 1.
        agreement: how far the nestings may differ, relative to the derivative or 1.
        seed: of the random directions.
    """
    rng = np.random.default_rng(seed)
    with mx.stream(mx.cpu):
        point = mx.array(x, dtype=mx.float64)
        shape = function(point).shape
        cotangent = mx.array(rng.normal(size=shape), dtype=mx.float64)
        directions = [mx.array(rng.normal(size=x.shape), dtype=mx.float64) for _ in range(3)]

        def number(y: mx.array) -> mx.array:
            return mx.sum(function(y) * cotangent)

        for order in (1, 2, 3):
            along = directions[:order]
            lower = number
            for direction in along[:-1]:
                lower = reverse(lower, direction)
            expected = difference(lower, along[-1], step)(point).item()
            found = {}
            for modes in itertools.product((reverse, forward), repeat=order):
                derivative = number
                for mode, direction in zip(modes, along, strict=True):
                    derivative = mode(derivative, direction)
                found["".join(mode.__name__[0] for mode in modes)] = derivative(point).item()
            scale = max(1.0, abs(expected))
            for name, value in found.items():
                assert abs(value - expected) <= tolerance * scale, (name, value, expected)
            spread = max(found.values()) - min(found.values())
            assert spread <= agreement * scale, found
