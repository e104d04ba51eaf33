"""Cutoffs and bases against their formulas, their smoothness and their errors."""

from __future__ import annotations

import math

import mlx.core as mx
import numpy as np
import pytest

from mlpot import nn


@pytest.fixture(autouse=True)
def _on_the_cpu():
    with mx.stream(mx.cpu):
        yield


def array(x, dtype=mx.float64):
    return mx.array(np.asarray(x, dtype=float), dtype=dtype)


def slopes(f, x):
    """Value, slope and curvature at the points of x."""

    def first(x):
        return mx.grad(lambda y: mx.sum(f(y)))(x)

    second = mx.jvp(first, [x], [mx.ones_like(x)])[1][0]
    return np.array(f(x)), np.array(first(x)), np.array(second)


@pytest.mark.parametrize("p", [1, 2, 2.5, 3, 6, 9, 13])
def test_polynomial_cutoff(p):
    r = np.linspace(0, 4.999, 201)
    u = r / 5
    wanted = (
        1
        - (p + 1) * (p + 2) / 2 * u**p
        + p * (p + 2) * u ** (p + 1)
        - p * (p + 1) / 2 * u ** (p + 2)
    )
    found = np.array(nn.polynomial_cutoff(array(r), 5.0, p))
    assert np.abs(found - wanted).max() < 1e-12
    single = np.array(nn.polynomial_cutoff(array(r, mx.float32), 5.0, p))
    assert np.abs(single - wanted).max() < 2e-5
    beyond = slopes(lambda r: nn.polynomial_cutoff(r, 5.0, p), array([5.0, 5.1, 80.0, 1e30]))
    assert all(np.array_equal(b, np.zeros(4)) for b in beyond)
    edge = slopes(lambda r: nn.polynomial_cutoff(r, 5.0, p), array([5.0 - 1e-7]))
    assert all(np.abs(e).max() < 1e-4 for e in edge)


@pytest.mark.parametrize("p", [3, 6])
def test_polynomial_cutoff_is_smooth_at_the_origin(p):
    value, first, second = slopes(lambda r: nn.polynomial_cutoff(r, 5.0, p), array([0.0]))
    assert (value[0], first[0]) == (1.0, 0.0)
    assert abs(second[0]) < 1e-15


def test_cosine_cutoff():
    r = np.linspace(0, 6, 61)
    wanted = np.where(r < 5, 0.5 * (1 + np.cos(math.pi * r / 5)), 0)
    assert np.abs(np.array(nn.cosine_cutoff(array(r), 5.0)) - wanted).max() < 1e-14
    _, first, _ = slopes(lambda r: nn.cosine_cutoff(r, 5.0), array([5 - 1e-9, 5.0, 7.0]))
    assert np.abs(first).max() < 1e-8


def test_smooth_cutoff():
    u = np.linspace(0, 1.5, 151)
    wanted = np.where(u < 0.5, 1, np.where(u < 1, (1 - np.cos(2 * math.pi * (u - 1))) / 2, 0))
    assert np.abs(np.array(nn.smooth_cutoff(array(u))) - wanted).max() < 1e-14
    _, first, _ = slopes(nn.smooth_cutoff, array([0.2, 0.5 + 1e-9, 1 - 1e-9, 1.2]))
    assert np.abs(first).max() < 1e-7


def test_xplor_cutoff():
    on, rc = 4.5, 5.0
    r = np.linspace(0, 6, 601)
    formula = (rc**2 - r**2) ** 2 * (rc**2 + 2 * r**2 - 3 * on**2) / (rc**2 - on**2) ** 3
    wanted = np.where(r < on, 1, np.where(r < rc, formula, 0))
    assert np.abs(np.array(nn.xplor_cutoff(array(r), on, rc)) - wanted).max() < 1e-13
    _, first, second = slopes(
        lambda r: nn.xplor_cutoff(r, on, rc), array([on - 1e-9, on + 1e-9, rc - 1e-9, rc + 1e-9])
    )
    assert np.abs(first).max() < 1e-6
    assert abs(second[1] - second[0]) > 1


@pytest.mark.parametrize("basis", ["gaussian", "cosine", "smooth_finite", "fourier", "bessel"])
@pytest.mark.parametrize("cutoff", [True, False])
def test_bases_take_any_shape_and_have_finite_derivatives(basis, cutoff):
    x = array(np.linspace(-1, 7, 40).reshape(4, 10))

    def f(x):
        return nn.soft_one_hot_linspace(x, 0.0, 6.0, 5, basis, cutoff)

    assert f(x).shape == (4, 10, 5)
    assert f(x[:0]).shape == (0, 10, 5)
    assert all(np.isfinite(a).all() for a in slopes(lambda x: f(x).sum(axis=-1), x))
    if cutoff and basis != "gaussian":
        outside = np.array(f(array([-0.5, 0.0, 6.0, 6.5])))
        assert np.abs(outside).max() < 1e-14


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: nn.soft_one_hot_linspace(x, 0.0, 1.0, 3, "gaussian"), "cutoff is None"),
        (lambda x: nn.soft_one_hot_linspace(x, 1.0, 1.0, 3, "gaussian", True), "is empty"),
        (lambda x: nn.soft_one_hot_linspace(x, 0.0, 1.0, 1, "gaussian", False), "at least 2"),
        (lambda x: nn.soft_one_hot_linspace(x, 0.0, 1.0, 3, None, True), "basis is None"),
        (lambda x: nn.polynomial_cutoff(x, 0.0), "must be positive"),
        (lambda x: nn.polynomial_cutoff(x, 1.0, 0.5), "p >= 1"),
        (lambda x: nn.xplor_cutoff(x, 2.0, 1.0), "between 0 and r_max"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call(mx.ones((2,)))
