"""Sine-Bessel functions: the limit at the origin and every derivative."""

from __future__ import annotations

import math

import mlx.core as mx
import numpy as np
import pytest

from mlpot import nn

TOLERANCE = {mx.float64: 1e-10, mx.float32: 2e-5}
DTYPES = pytest.mark.parametrize("dtype", list(TOLERANCE), ids=["float64", "float32"])


@pytest.fixture(autouse=True)
def _on_the_cpu():
    with mx.stream(mx.cpu):
        yield


def derivative(f, order):
    for level in range(order):

        def outer(x, f=f, forward=level % 2 == 1):
            if forward:
                return mx.jvp(f, [x], [mx.ones_like(x)])[1][0]
            return mx.grad(lambda y: mx.sum(f(y)))(x)

        f = outer
    return f


def moment(u, order):
    """n-th derivative of sin(u)/u as the integral of t^n cos(u t + n pi/2) over 0 < t < 1."""
    t, weights = np.polynomial.legendre.leggauss(60)
    t, weights = (t + 1) / 2, weights / 2
    return (weights * t**order * np.cos(np.outer(u, t) + order * math.pi / 2)).sum(axis=1)


@DTYPES
@pytest.mark.parametrize("order", [0, 1, 2, 3, 4])
def test_derivatives_from_zero_to_far_away(order, dtype):
    u = np.concatenate(
        [[0.0, 1e-300, 1e-20, 1e-8, 1e-4, 0.01], np.linspace(0.02, 30, 400), [-0.3, 0.9999, 1.0]]
    )
    wanted = moment(u, order)
    found = np.array(derivative(nn.sinc, order)(mx.array(u, dtype=dtype)), dtype=float)
    assert np.abs(found - wanted).max() < TOLERANCE[dtype]


@DTYPES
def test_value_and_slope_at_the_origin(dtype):
    x = mx.zeros((1,), dtype=dtype)
    value = np.array(nn.bessel(x, 4, 5.0))[0]
    assert np.allclose(value, math.sqrt(2 / 5) * np.arange(1, 5) * math.pi / 5, rtol=1e-6)
    for n in range(4):
        slope = mx.grad(lambda x, n=n: nn.bessel(x, 4, 5.0)[0, n])(x)
        assert float(slope[0]) == 0.0


def test_functions_are_orthonormal():
    x, w = np.polynomial.legendre.leggauss(80)
    x, w = (x + 1) * 2.5, w * 2.5
    b = np.array(nn.bessel(mx.array(x, dtype=mx.float64), 6, 5.0))
    # Orthonormal in three dimensions without the factor 4 pi.
    assert np.abs((b * (w * x**2)[:, None]).T @ b - np.eye(6)).max() < 1e-12


def test_frequencies_are_differentiated():
    r = mx.array([0.0, 0.7, 2.0], dtype=mx.float64)
    w = mx.array([0.6, 1.3], dtype=mx.float64)

    def total(w):
        return nn.sine_bessel(r, w, 0.4).sum()

    found = np.array(mx.grad(total)(w))
    wanted = 0.4 * np.cos(np.outer(np.array(r), np.array(w))).sum(axis=0)
    assert np.allclose(found, wanted, rtol=1e-13)
    second = np.array(mx.jvp(mx.grad(total), [w], [mx.ones_like(w)])[1][0])
    wanted = -0.4 * (np.array(r)[:, None] * np.sin(np.outer(np.array(r), np.array(w)))).sum(axis=0)
    assert np.allclose(second, wanted, rtol=1e-12)


def test_soft_one_hot_bessel_has_the_limit_at_its_start():
    x = mx.array([1.0, 1.0 + 1e-9], dtype=mx.float64)
    found = np.array(nn.soft_one_hot_linspace(x, 1.0, 4.0, 3, "bessel", False))
    assert np.abs(found[0] - found[1]).max() < 1e-8
    assert (found[0] > 0.5).all()
