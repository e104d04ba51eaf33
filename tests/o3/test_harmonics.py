"""Spherical harmonics of vectors and angles. Numbers of e3nn: test_e3nn_algebra.py."""

from __future__ import annotations

import inspect

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nestings import check_nestings, forward, reverse
from numpy.polynomial import legendre

from mlpot import kernels, o3
from mlpot.kernels import native
from mlpot.o3.solid_harmonics import solid_harmonics

LMAX = 11
ALL = list(range(LMAX + 1))
seeds = st.integers(0, 2**31)


@pytest.fixture(autouse=True)
def on_cpu():
    with mx.stream(mx.cpu):
        yield


def vectors(seed, n=4):
    return mx.array(np.random.default_rng(seed).normal(size=(n, 3)), dtype=mx.float64)


def values(l, x, normalize=True, normalization="component"):
    return np.array(o3.spherical_harmonics(l, x, normalize, normalization))


@given(seeds, st.booleans())
def test_equivariance(seed, normalize):
    irreps = o3.Irreps.spherical_harmonics(LMAX)
    x = vectors(seed)
    R = o3.angles_to_matrix(*np.random.default_rng(seed).uniform(-3, 3, 3)).astype(mx.float64)
    R = o3.quaternion_to_matrix(o3.matrix_to_quaternion(R))
    if seed % 2:
        R = -R
    turned = values(irreps, x @ R.T, normalize)
    expected = values(irreps, x, normalize) @ np.array(irreps.D_from_matrix(R)).T
    scale = 1.0 if normalize else max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(turned, expected, rtol=0, atol=1e-11 * scale)


@given(seeds, st.integers(0, LMAX))
def test_addition_theorem(seed, l):
    x, y = vectors(seed), vectors(seed + 1)
    product = np.sum(values(l, x) * values(l, y), axis=1)
    x, y = (np.array(v / mx.linalg.norm(v, axis=1, keepdims=True)) for v in (x, y))
    cosine = np.sum(x * y, axis=1)
    expected = (2 * l + 1) * legendre.Legendre.basis(l)(cosine)
    np.testing.assert_allclose(product, expected, rtol=0, atol=1e-12)


def test_normalizations():
    x = vectors(0)
    component = values(ALL, x)
    start = 0
    norm, integral = values(ALL, x, True, "norm"), values(ALL, x, True, "integral")
    for l in ALL:
        block = slice(start, start + 2 * l + 1)
        start += 2 * l + 1
        np.testing.assert_allclose(np.sum(component[:, block] ** 2, axis=1), 2 * l + 1, rtol=1e-13)
        np.testing.assert_allclose(np.sum(norm[:, block] ** 2, axis=1), 1.0, rtol=1e-13)
        np.testing.assert_allclose(
            integral[:, block] * np.sqrt(4 * np.pi), component[:, block], rtol=0, atol=1e-13
        )
    np.testing.assert_allclose(
        values(1, x, False), np.sqrt(3.0) * np.array(x), rtol=1e-15, atol=1e-15
    )


@given(seeds, st.integers(0, LMAX))
def test_homogeneous_and_harmonic_polynomials(seed, l):
    x = vectors(seed, 2)
    x = x / mx.linalg.norm(x, axis=1, keepdims=True)
    doubled = values(l, 2.0 * x, False)
    np.testing.assert_allclose(doubled, 2.0**l * values(l, x, False), rtol=0, atol=2.0**l * 1e-13)
    # The Laplacian of each component is zero.
    for component in range(2 * l + 1):

        def number(x, component=component):
            return mx.sum(o3.spherical_harmonics(l, x, False, "component")[..., component])

        laplacian = sum(
            reverse(reverse(number, e), e)(x[0]).item() for e in mx.eye(3, dtype=mx.float64)
        )
        assert abs(laplacian) < 1e-10 * 4**l


def test_float32_is_as_good_as_it_gets():
    exact = vectors(3, 200)
    expected = values(ALL, exact)
    found = o3.spherical_harmonics(ALL, exact.astype(mx.float32), True, "component")
    assert found.dtype == mx.float32
    assert np.abs(np.array(found) - expected).max() < 2e-5 * np.abs(expected).max()


@pytest.mark.parametrize("normalize", [True, False])
def test_zero_vectors_have_finite_derivatives_of_every_order(normalize):
    x = mx.zeros((2, 3), dtype=mx.float32)
    out = np.array(o3.spherical_harmonics(ALL, x, normalize, "component"))
    assert (out[:, 0] == 1.0).all()
    assert (out[:, 1:] == 0.0).all()
    weights = mx.arange(out.shape[1]).astype(mx.float32)
    direction = mx.array([[1.0, -2.0, 0.5], [3.0, 1.0, 1.0]])

    def number(x):
        return mx.sum(o3.spherical_harmonics(ALL, x, normalize, "component") * weights)

    for mode in (reverse, forward):
        derivative = number
        for _ in range(4):
            derivative = mode(derivative, direction)
            assert np.isfinite(derivative(x).item())
            assert np.isfinite(np.array(mx.grad(derivative)(x))).all()
    if not normalize:
        # The second derivative of degree 2 at zero is not zero.
        assert abs(reverse(reverse(number, direction), direction)(x).item()) > 1.0


@pytest.mark.parametrize("length", [1e-30, 1e-13, 1e-11, 1e-3, 1e6])
def test_lengths_do_not_matter_where_there_is_a_direction(length):
    x = np.array([[0.6, 0.0, -0.8], [1.0, 2.0, 2.0]]) / np.array([[1.0], [3.0]])
    found = values([1, 2, 3], mx.array(length * x, dtype=mx.float32))
    expected = values([1, 2, 3], mx.array(x, dtype=mx.float32))
    if length < 1e-12:
        assert (found == 0.0).all()
    else:
        np.testing.assert_allclose(found, expected, rtol=0, atol=3e-6)


@pytest.mark.parametrize("l", [0, 1, [0, 1, 2, 3], [4, 1], [5, 7]])
@pytest.mark.parametrize("normalize", [True, False])
def test_derivatives_by_every_nesting(l, normalize):
    x = np.random.default_rng(1).normal(size=(2, 3))
    x *= 1.3 / np.linalg.norm(x, axis=1, keepdims=True)
    check_nestings(
        lambda x: o3.spherical_harmonics(l, x, normalize, "component"), x, tolerance=1e-6
    )


def test_batched_derivatives_and_compilation():
    x = vectors(5, 6)
    out = o3.spherical_harmonics([0, 1, 2, 4], x, True)
    weights = mx.array(np.random.default_rng(0).normal(size=out.shape[1]), dtype=mx.float64)

    def number(x):
        return mx.sum(o3.spherical_harmonics([0, 1, 2, 4], x, True) * weights)

    expected = np.array(mx.grad(number)(x))
    np.testing.assert_allclose(np.array(mx.vmap(mx.grad(number))(x)), expected, atol=1e-13)
    compiled = mx.compile(mx.grad(number))
    np.testing.assert_allclose(np.array(compiled(x)), expected, atol=1e-13)

    def along(v):
        return mx.jvp(mx.grad(number), [x], [v])[1][0]

    directions = mx.array(np.random.default_rng(1).normal(size=(3, 6, 3)), dtype=mx.float64)
    together = np.array(mx.vmap(along)(directions))
    for i in range(3):
        np.testing.assert_allclose(together[i], np.array(along(directions[i])), atol=1e-12)


def test_shapes_lists_and_irreps():
    x = vectors(0, 24).reshape(2, 3, 4, 3)
    assert values(2, x).shape == (2, 3, 4, 5)
    assert values([2, 0, 2], x).shape == (2, 3, 4, 11)
    assert values(2, x[0, 0, 0]).shape == (5,)
    assert values([0, 3], x[:0]).shape == (0, 3, 4, 8)
    assert values([], x).shape == (2, 3, 4, 0)
    assert values("", x).shape == values("0x1o", x).shape == (2, 3, 4, 0)
    single = values(2, x)
    twice = values("2x2e", x)
    assert np.array_equal(twice, np.concatenate([single, single], axis=-1))
    assert np.array_equal(values(o3.Irrep("2e"), x), single)
    assert np.array_equal(values(["0e", "2e"], x), values([0, 2], x))
    assert np.array_equal(values([2, 0], x)[..., :5], values([0, 2], x)[..., 1:])
    assert o3.spherical_harmonics(1, mx.array([1, 0, 0]), True).dtype == mx.float32


def test_module():
    module = o3.SphericalHarmonics([0, 1, 2], True, "norm")
    assert module.irreps_out == o3.Irreps("0e+1o+2e")
    assert module.irreps_in == o3.Irreps("1o")
    assert module.parameters() == {}
    pseudo = o3.SphericalHarmonics("1e+2e", True)
    assert pseudo.irreps_in == o3.Irreps("1e")
    assert o3.SphericalHarmonics([1, 2], True, irreps_in="1e").irreps_out == o3.Irreps("1e+2e")
    x = vectors(0)
    assert np.array_equal(np.array(module(x)), values([0, 1, 2], x, True, "norm"))
    assert "norm" in repr(module)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: o3.SphericalHarmonics("1o+1e", True), "are 1o, not 1e"),
        (lambda: o3.SphericalHarmonics("1o", True, irreps_in="1e"), "are 1e, not 1o"),
        (lambda: o3.SphericalHarmonics("2o", True), "are 2e, not 2o"),
        (lambda: o3.SphericalHarmonics("2e", True, irreps_in="2e"), "irreps_in is 1x2e"),
        (lambda: o3.SphericalHarmonics(1, True, "unit"), "normalization is 'unit'"),
        (lambda: o3.SphericalHarmonics(-1, True), "l is -1"),
        (lambda: o3.SphericalHarmonicsAlphaBeta(1, "unit"), "normalization is 'unit'"),
        (lambda: o3.Legendre([-1]), "l is -1"),
        (
            lambda: inspect.unwrap(o3.SphericalHarmonics.__call__)(
                o3.SphericalHarmonics(1, True), mx.zeros((4, 2))
            ),
            "last axis must be 3",
        ),
    ],
)
def test_wrong_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@given(seeds, st.sampled_from(["integral", "component", "norm"]))
def test_angles_give_the_harmonics_of_the_point(seed, normalization):
    alpha, beta = mx.array(np.random.default_rng(seed).uniform(-7, 7, (2, 5)), dtype=mx.float64)
    found = o3.spherical_harmonics_alpha_beta(ALL, alpha, beta, normalization=normalization)
    expected = o3.spherical_harmonics(ALL, o3.angles_to_xyz(alpha, beta), False, normalization)
    np.testing.assert_allclose(np.array(found), np.array(expected), rtol=0, atol=1e-12)


def test_angular_shapes_and_derivatives():
    alpha, beta = mx.zeros((4, 1)), mx.zeros(5)
    assert o3.spherical_harmonics_alpha_beta([0, 2], alpha, beta).shape == (4, 5, 6)
    assert o3.spherical_harmonics_alpha_beta("2x1o", alpha, beta).shape == (4, 5, 6)
    assert o3.spherical_harmonics_alpha_beta([], alpha, beta).shape == (4, 5, 0)
    assert o3.spherical_harmonics_alpha(0, alpha).shape == (4, 1, 1)
    angles = np.random.default_rng(0).uniform(-3, 3, (2, 3))
    check_nestings(
        lambda x: o3.spherical_harmonics_alpha_beta([0, 1, 4], x[0, :], x[1, :]),
        angles,
        tolerance=1e-6,
    )


@given(st.floats(-1.0, 1.0), st.integers(0, LMAX))
def test_legendre_polynomials(z, l):
    y = mx.array(np.sqrt(1.0 - z * z), dtype=mx.float64)
    found = np.array(o3.Legendre([l])(mx.array(z, dtype=mx.float64), y))
    expected = np.sqrt((2 * l + 1) / (4 * np.pi)) * legendre.Legendre.basis(l)(z)
    np.testing.assert_allclose(found[l], expected, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(found, found[::-1])


def test_the_primitive_holds_all_degrees():
    x = vectors(2, 3)
    out = solid_harmonics(3, x)
    assert out.shape == (3, 16)
    np.testing.assert_allclose(np.array(out)[:, 9:], values(3, x, False), rtol=0, atol=1e-14)
    assert mx.grad(lambda x: mx.sum(solid_harmonics(0, x)))(x).tolist() == [[0.0] * 3] * 3


@pytest.mark.parametrize("n", [1, 37])
@pytest.mark.parametrize("lmax", [0, 1, 3, 6, LMAX])
def test_native_kernels_against_plain_float64(lmax, n):
    rng = np.random.default_rng(lmax)
    x, c, t = (rng.normal(size=(n, width)) for width in (3, (lmax + 1) ** 2, 3))

    def all_maps(dtype, use):
        def slope(v):
            return mx.sum(mx.vjp(function, [v], [cotangent])[1][0] * tangent)

        def function(v):
            return solid_harmonics(lmax, v, use)

        v, cotangent, tangent = (mx.array(a, dtype=dtype) for a in (x, c, t))
        found = [function(v), mx.vjp(function, [v], [cotangent])[1][0]]
        found += [mx.jvp(function, [v], [tangent])[1][0], mx.grad(slope)(v)]
        return [np.array(a, dtype=np.float64) for a in found]

    wanted = all_maps(mx.float64, False)
    for dtype, tolerance in ((mx.float64, 1e-13), (mx.float32, 2e-6)):
        for found, want in zip(all_maps(dtype, True), wanted, strict=True):
            assert np.abs(found - want).max() <= tolerance * max(1.0, np.abs(want).max())


def test_the_switch_travels_into_derivatives():
    x = vectors(0)
    results = []
    for use in (True, False):
        kernels.clear_report()
        with kernels.use("auto"):
            value = mx.sum(o3.spherical_harmonics([1, 2], x, True, use_custom_kernel=use) ** 4)
            results.append(
                mx.grad(
                    lambda v, use=use: mx.sum(
                        o3.spherical_harmonics([1, 2], v, True, use_custom_kernel=use) ** 4
                    )
                )(x)
            )
            mx.eval(value, results)
        backends = {r.backend for r in kernels.report() if r.primitive.startswith("harmonics")}
        assert backends == ({"native"} if use else {"reference"})
    assert np.abs(np.array(results[0] - results[1])).max() < 1e-12


def test_degrees_without_native_kernels(monkeypatch):
    x = vectors(3)
    monkeypatch.setattr("mlpot.o3.solid_harmonics._LARGEST_NATIVE_DEGREE", 2)
    assert solid_harmonics(2, x, True).shape == (4, 9)
    with pytest.raises(ValueError, match="degree 3"):
        solid_harmonics(3, x, True)
    assert solid_harmonics(3, x).shape == (4, 16)


def test_same_bits_with_any_number_of_threads():
    x = mx.array(np.random.default_rng(5).normal(size=(20_000, 3)), dtype=mx.float32)
    before, results = native.num_threads(), []
    try:
        for threads in (1, 2, 3):
            native.set_num_threads(threads)
            results.append(np.array(mx.grad(lambda v: mx.sum(solid_harmonics(4, v) ** 2))(x)))
    finally:
        native.set_num_threads(before)
    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[0], results[2])
