"""Switched Bessel functions and their derivatives on an emulated GPU against float64."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from emulated_gpu import assert_close, emulated_gpu, random_array, to_float64

from mlpot import kernels, nn
from mlpot.kernels import gpu

pytestmark = pytest.mark.emulated

CUTOFF, N, P = 4.0, 5, 6
ORDERS = [("out", 0), ("out", 1), ("out", 2), ("out", 3), *(("adjoint", k) for k in (1, 2, 3))]


def plain(length: mx.array) -> mx.array:
    roots = mx.array(np.arange(1, N + 1) * (np.pi / CUTOFF), dtype=length.dtype)
    values = nn.sine_bessel(length, roots, 2.0 / CUTOFF)
    return values * nn.polynomial_cutoff(length, CUTOFF, P)[:, None]


def distances(n: int) -> mx.array:
    """From the origin to beyond the cutoff."""
    some = np.linspace(0.0, 1.05 * CUTOFF, n).astype(np.float32)
    return mx.array(np.append(some, np.float32(CUTOFF)))


@pytest.mark.parametrize(("kind", "order"), ORDERS)
def test_values(kind, order):
    spec = kernels.BesselSpec(CUTOFF, N, P)
    x = distances(70)
    directions = [
        random_array(x.shape, seed=1 + i) for i in range(order if kind == "out" else order - 1)
    ]
    g = [random_array((x.shape[0], N))] if kind == "adjoint" else []
    with emulated_gpu() as device:
        found = gpu.bessel_basis(spec, kind, order, [x, *g, *directions])
    assert device.kernels == [f"bessel_{kind}_{order}"]
    with mx.stream(mx.cpu), kernels.use("reference"):
        function = plain
        for _ in range(order):
            function = lambda r, f=function: mx.jvp(f, [r], [mx.ones_like(r)])[1][0]  # noqa: E731
        wanted = function(to_float64(x))
        for direction in directions:
            wanted = wanted * to_float64(direction)[:, None]
        if kind == "adjoint":
            wanted = mx.sum(wanted * to_float64(g[0]), axis=1)
        mx.eval(wanted)
    assert_close(found, wanted, 2e-6)


@pytest.mark.parametrize("p", [2, 3, 7])
def test_orders_of_the_envelope(p):
    x, spec = distances(30), kernels.BesselSpec(CUTOFF, N, p)
    with emulated_gpu():
        found = [gpu.bessel_basis(spec, "out", k, [x, *[mx.ones_like(x)] * k]) for k in (0, 1)]

    def function(r: mx.array) -> mx.array:
        roots = mx.array(np.arange(1, N + 1) * (np.pi / CUTOFF), dtype=r.dtype)
        values = nn.sine_bessel(r, roots, 2.0 / CUTOFF)
        return values * nn.polynomial_cutoff(r, CUTOFF, p)[:, None]

    with mx.stream(mx.cpu), kernels.use("reference"):
        r = to_float64(x)
        wanted = mx.jvp(function, [r], [mx.ones_like(r)])
        mx.eval(wanted)
    assert_close(found[0], wanted[0][0], 1e-6)
    assert_close(found[1], wanted[1][0], 2e-6)


def test_derivative_of_a_derivative():
    """The gradient of a function of slopes, as in the training on forces."""
    spec, x, g = kernels.BesselSpec(CUTOFF, N, P), distances(20), random_array((21, N))

    def slopes(function, r, g):
        return mx.sum(mx.grad(lambda q: mx.sum(mx.tanh(function(q)) * g))(r) ** 2)

    with emulated_gpu() as device:
        found = mx.grad(slopes, argnums=(1, 2))(
            lambda r: kernels.bessel_basis(spec, r, plain), x, g
        )
        mx.eval(found)
    assert {"bessel_out_0", "bessel_adjoint_1", "bessel_out_1"} <= set(device.kernels)
    with mx.stream(mx.cpu), kernels.use("reference"):
        wanted = mx.grad(slopes, argnums=(1, 2))(plain, to_float64(x), to_float64(g))
        mx.eval(wanted)
    for a, b in zip(found, wanted, strict=True):
        assert_close(a, b, 1e-5)


def test_what_is_no_number_stays_that():
    spec = kernels.BesselSpec(CUTOFF, N, P)
    with emulated_gpu():
        found = kernels.bessel_basis(spec, mx.array([float("nan"), 1.0]), plain)
    assert np.isnan(np.array(found)[0]).all()
    assert np.isfinite(np.array(found)[1]).all()


def test_float64_is_plain_mlx():
    x = to_float64(distances(5))
    with mx.stream(mx.cpu):
        found = kernels.bessel_basis(kernels.BesselSpec(CUTOFF, N, P), x, plain)
        assert np.array_equal(np.array(found), np.array(plain(x)))


@pytest.mark.parametrize(("order", "refused"), [(gpu.LARGEST_ORDER, False), (4, True)])
def test_orders_beyond_the_largest_are_refused(order, refused):
    with emulated_gpu():
        told = gpu.bessel_refusal(order, mx.ones((3,)))
    assert (told is not None) == refused
    assert not refused or "derivatives of order 4 (the kernels end at 3)" in str(told)
