"""Smooth functions with compact support: values, derivatives of every order, the edges."""

from __future__ import annotations

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


def cauchy(f, x, order, radius):
    """n-th derivative of an analytic function by Cauchy's formula: no difference is taken."""
    angles = np.exp(2j * np.pi * (np.arange(256) + 0.5) / 256)
    values = f(x[:, None] + radius[:, None] * angles)
    scale = np.array([float(np.prod(np.arange(1, order + 1)))]) / radius**order
    return (values * angles**-order).mean(axis=1).real * scale


def nested(f, order, mode):
    """n-th derivative of a pointwise function by repeated differentiation."""

    def summed(g):
        return lambda x: mx.sum(g(x))

    for level in range(order):
        forward = {"reverse": False, "forward": True, "mixed": level % 2 == 1}[mode]

        def derivative(x, f=f, forward=forward):
            if forward:
                return mx.jvp(f, [x], [mx.ones_like(x)])[1][0]
            return mx.grad(summed(f))(x)

        f = derivative
    return f


STEP = (nn.soft_unit_step, lambda z: np.exp(-1 / z), np.linspace(0.02, 3.0, 150))
BUMP = (nn.smooth_bump, lambda z: np.exp(2 - 2 / (1 - z * z)), np.linspace(-0.98, 0.98, 151))


@DTYPES
@pytest.mark.parametrize("mode", ["reverse", "forward", "mixed"])
@pytest.mark.parametrize("order", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("case", [STEP, BUMP], ids=["step", "bump"])
def test_derivatives_are_those_of_the_analytic_function(case, order, mode, dtype):
    f, analytic, x = case
    if order == 4 and dtype == mx.float32:
        x = x[10:-10]
    distance = x if f is nn.soft_unit_step else 1 - np.abs(x)
    wanted = cauchy(analytic, x, order, 0.3 * distance)
    found = np.array(nested(f, order, mode)(mx.array(x, dtype=dtype)), dtype=float)
    assert np.abs(found - wanted).max() < TOLERANCE[dtype] * np.abs(wanted).max()


@DTYPES
@pytest.mark.parametrize("order", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize("f", [nn.soft_unit_step, nn.smooth_bump])
def test_zero_with_all_derivatives_at_and_beyond_the_edges(f, order, dtype):
    edge = 0.0 if f is nn.soft_unit_step else -1.0
    tiny = [0.0, 1e-300, 1e-40, 1e-30, 1e-12, 1e-7, 1e-4, 1e-3]
    x = [edge + t for t in tiny] + [edge - t for t in tiny] + [edge - 1.0, -1e6, -1e30]
    found = np.array(nested(f, order, "mixed")(mx.array(x, dtype=dtype)))
    assert np.array_equal(found, np.zeros(len(x)))


@DTYPES
@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_smooth_finite_basis_is_finite_everywhere(order, dtype):
    x = mx.array(np.concatenate([np.linspace(-1, 7, 801), [0.0, 6.0, 1e-8, 1e5]]), dtype=dtype)

    def basis(x):
        return nn.soft_one_hot_linspace(x, 0.0, 6.0, 10, "smooth_finite", True)

    found = x
    for k in range(10):
        found = np.array(nested(lambda x, k=k: basis(x)[:, k], order, "mixed")(x))
        assert np.isfinite(found).all()
        assert np.abs(found).max() > 0.1


def test_smooth_finite_basis_is_the_published_formula():
    x = np.linspace(0.1, 5.9, 117)
    centres = np.linspace(0, 6, 12)[1:-1]
    d = (x[:, None] - centres) / (centres[1] - centres[0])

    def u(t):
        return np.where(t > 0, np.exp(-1 / np.where(t > 0, t, 1)), 0)

    wanted = 1.14136 * np.exp(2) * u(d + 1) * u(1 - d)
    found = nn.soft_one_hot_linspace(
        mx.array(x, dtype=mx.float64), 0.0, 6.0, 10, "smooth_finite", True
    )
    assert np.abs(np.array(found) - wanted).max() < 1e-14
    inside = (x > 1) & (x < 5)
    assert abs((wanted**2).sum(axis=1)[inside].mean() - 1) < 0.02
