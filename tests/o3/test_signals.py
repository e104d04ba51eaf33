"""Reduced products, signals on the sphere and on the group of rotations."""

from __future__ import annotations

import inspect

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nestings import check_nestings

from mlpot import o3
from mlpot.o3.permutation_formula import parse_formula
from mlpot.o3.s2_grid import complete_resolution, quadrature_weights


@pytest.fixture(autouse=True)
def on_cpu():
    with mx.stream(mx.cpu):
        yield


def normal(shape, seed=0):
    return mx.array(np.random.default_rng(seed).normal(size=shape), dtype=mx.float64)


def random_rotation(seed):
    q = normal(4, seed)
    return o3.quaternion_to_matrix(q) * (1.0 if seed % 2 else -1.0)


def test_formulas_make_groups():
    indices, group = parse_formula("ijk=-jik=-ikj")
    assert indices == "ijk"
    assert len(group) == 6
    assert sum(group.values()) == 0
    assert parse_formula("ijk = jki")[1] == {(0, 1, 2): 1, (1, 2, 0): 1, (2, 0, 1): 1}
    # T_ijk = -T_jki three times over is T = -T: only zero fulfils it.
    assert o3.ReducedTensorProducts("ijk=-jki", i="1o").irreps_out == o3.Irreps("")
    assert o3.ReducedTensorProducts("ij=-ij", i="1o", j="1o").irreps_out == o3.Irreps("")


@pytest.mark.parametrize(
    ("formula", "irreps"),
    [
        ("ij=ji", {"i": "1o"}),
        ("ij=-ji", {"i": "2x0e+1o"}),
        ("ijk=jik=ikj", {"i": "0e+1o+0x2e"}),
        ("ijk=jik", {"i": "1o", "k": "1e+2o"}),
        ("ijkl=-jikl=-ijlk=klij", {"i": "1o"}),
        ("i", {"i": "2x1o+0e"}),
    ],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_reduced_basis(formula, irreps, seed):
    product = o3.ReducedTensorProducts(formula, **irreps)
    _, group = parse_formula(formula)
    Q = np.array(product.change_of_basis, dtype=np.float64)
    dims = tuple(ir.dim for ir in product.irreps_in)
    assert Q.shape == (product.irreps_out.dim, *dims)
    flat = Q.reshape(len(Q), -1)
    np.testing.assert_allclose(flat @ flat.T, np.eye(len(Q)), atol=1e-6)
    for permutation, sign in group.items():
        moved = Q.transpose(0, *(1 + p for p in permutation))
        np.testing.assert_allclose(moved, sign * Q, atol=1e-6)
    # As many as the trace of the symmetriser says.
    basis = np.eye(int(np.prod(dims))).reshape(-1, *dims)
    trace = sum(
        sign * np.sum(basis * basis.transpose(0, *(1 + p for p in permutation)))
        for permutation, sign in group.items()
    )
    assert round(trace / len(group)) == len(Q)
    xs = [normal((2, ir.dim), i) for i, ir in enumerate(product.irreps_in)]
    R = random_rotation(seed)
    turned = product(
        *(x @ ir.D_from_matrix(R).T for x, ir in zip(xs, product.irreps_in, strict=True))
    )
    expected = product(*xs) @ product.irreps_out.D_from_matrix(R).T
    np.testing.assert_allclose(np.array(turned), np.array(expected), rtol=0, atol=1e-12)


def test_reduced_products_broadcast_and_differentiate():
    product = o3.ReducedTensorProducts("ij=ji", i="0e+1o")
    assert product(normal((5, 1, 4)), normal((3, 4))).shape == (5, 3, product.irreps_out.dim)
    check_nestings(lambda x: product(x, x), np.random.default_rng(0).normal(size=(2, 4)))
    assert product.parameters() == {}


@pytest.mark.parametrize(
    ("formula", "irreps", "message"),
    [
        ("ij=kk", {"i": "1o"}, "not a permutation"),
        ("ii=ii", {"i": "1o"}, "different letters"),
        ("ij=ji", {"i": "1o", "j": "2e"}, "i and j are exchanged"),
        ("ij=ji", {"k": "1o"}, "k, not an index"),
        ("ij", {"i": "1o"}, "give irreps for the index j"),
    ],
)
def test_wrong_formulas_are_named(formula, irreps, message):
    with pytest.raises(ValueError, match=message):
        o3.ReducedTensorProducts(formula, **irreps)


def test_wrong_inputs_of_reduced_products_are_named():
    product = o3.ReducedTensorProducts("ij=ji", i="1o")
    with pytest.raises(ValueError, match="1 inputs were given"):
        product(mx.zeros((2, 3)))
    with pytest.raises(ValueError, match="input 1"):
        product(mx.zeros((2, 3)), mx.zeros((2, 4)))


@pytest.mark.parametrize("normalization", ["component", "norm", "integral"])
@given(st.integers(0, 6), st.integers(0, 3), st.integers(0, 4), st.integers(0, 1000))
def test_signals_on_the_sphere_come_back(normalization, lmax, more_beta, more_alpha, seed):
    res = (2 * (lmax + 1 + more_beta), 2 * lmax + 1 + more_alpha)
    to_grid = o3.ToS2Grid(lmax, res, normalization=normalization)
    from_grid = o3.FromS2Grid(res, lmax, normalization=normalization)
    x = normal((2, 3, (lmax + 1) ** 2), seed)
    signal = to_grid(x)
    assert signal.shape == (2, 3, *res)
    np.testing.assert_allclose(np.array(from_grid(signal)), np.array(x), rtol=0, atol=1e-12)


def test_grid_values_are_the_harmonics():
    lmax = 4
    to_grid = o3.ToS2Grid(lmax, (10, 12), normalization="integral")
    x = normal((lmax + 1) ** 2)
    Y = o3.spherical_harmonics(list(range(lmax + 1)), to_grid.grid.astype(mx.float64), True)
    np.testing.assert_allclose(np.array(to_grid(x)), np.array(Y @ x), rtol=0, atol=1e-6)
    betas, alphas, shb, sha = o3.spherical_harmonics_s2_grid(lmax, 10, 12, dtype=mx.float64)
    np.testing.assert_allclose(np.array(betas), np.array(to_grid.betas), atol=1e-6)
    np.testing.assert_allclose(np.array(alphas), np.array(to_grid.alphas), atol=1e-6)
    whole = np.concatenate(
        [
            np.array(shb)[:, None, l * l : (l + 1) ** 2] * np.array(sha)[:, lmax - l : lmax + l + 1]
            for l in range(lmax + 1)
        ],
        axis=-1,
    )
    np.testing.assert_allclose(np.array(to_grid(x)), whole @ np.array(x), rtol=0, atol=1e-12)
    assert np.array_equal(np.array(o3.s2_grid(10, 12)[0]), np.array(to_grid.betas))


@given(st.integers(1, 12))
def test_quadrature_is_exact_below_its_degree(n):
    beta = (np.arange(2 * n) + 0.5) * np.pi / (2 * n)
    weights = quadrature_weights(n)
    for degree in range(2 * n):
        exact = 2.0 / (degree + 1) if degree % 2 == 0 else 0.0
        assert abs(weights @ np.cos(beta) ** degree - exact) < 1e-13


@given(st.integers(0, 5), st.integers(0, 4))
def test_fourier_series_come_back(l, more):
    res = 2 * l + 1 + more
    x = normal((3, 2 * l + 1), res)
    found = o3.rfft(o3.irfft(x, res), l) / res
    np.testing.assert_allclose(np.array(found), np.array(x), rtol=0, atol=1e-13)


def test_resolutions_complete_each_other():
    assert complete_resolution(2, None) == (2, 6, 5)
    assert complete_resolution(None, 20) == (9, 20, 19)
    assert complete_resolution(None, (20, 3)) == (1, 20, 3)
    assert complete_resolution(None, (None, 5)) == (2, 6, 5)
    assert complete_resolution(2, (8, None)) == (2, 8, 7)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: o3.ToS2Grid(), "neither lmax"),
        (lambda: o3.ToS2Grid(2, 7), "must be even, as 8"),
        (lambda: o3.FromS2Grid(4, 2), "at least 6"),
        (lambda: o3.ToS2Grid(2, normalization="unit"), "normalization is 'unit'"),
        (lambda: o3.SO3Grid(1, 2, normalization="norm"), "normalization is 'norm'"),
        (lambda: o3.ToS2Grid(2)(mx.zeros((3, 8))), "last axis must be 9"),
        (lambda: o3.FromS2Grid((6, 5), 2)(mx.zeros((6, 6))), "must be 6 and 5"),
        (lambda: o3.SO3Grid(1, 2).to_grid(mx.zeros(9)), "last axis must be 10"),
        (lambda: o3.SO3Grid(1, 2).from_grid(mx.zeros((8, 4, 7))), "must be \\(8, 4, 8\\)"),
        (lambda: inspect.unwrap(o3.rfft)(mx.zeros((2, 5)), 3), "needs at least 6"),
        (lambda: inspect.unwrap(o3.irfft)(mx.zeros((2, 5)), 4), "has 5 coefficients"),
        (lambda: inspect.unwrap(o3.irfft)(mx.zeros((2, 4)), 9), "has 4 coefficients"),
    ],
)
def test_wrong_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_signals_differentiate_by_every_nesting():
    to_grid, from_grid = o3.ToS2Grid(2, (8, 7)), o3.FromS2Grid((8, 7), 2)
    x = np.random.default_rng(0).normal(size=(2, 9))
    check_nestings(lambda x: from_grid(mx.tanh(to_grid(x))), x)
    grid = o3.SO3Grid(1, 2)
    x = np.random.default_rng(0).normal(size=(1, 10))
    check_nestings(lambda x: grid.from_grid(mx.tanh(grid.to_grid(x))), x)


@given(st.integers(0, 3), st.integers(1, 2), st.integers(0, 1000))
def test_signals_on_rotations_come_back(lmax, aspect_ratio, seed):
    grid = o3.SO3Grid(lmax, lmax + 1, aspect_ratio=aspect_ratio)
    n = sum((2 * l + 1) ** 2 for l in range(lmax + 1))
    x = normal((2, n), seed)
    signal = grid.to_grid(x)
    assert signal.shape == (2, grid.res_alpha, grid.res_beta, grid.res_gamma)
    np.testing.assert_allclose(np.array(grid.from_grid(signal)), np.array(x), rtol=0, atol=1e-11)


def test_grid_of_rotations():
    grid = o3.SO3Grid(2, 3)
    D = o3.wigner_D(2, grid.alpha[3], grid.beta[2], grid.gamma[5])
    np.testing.assert_allclose(
        np.array(grid.D)[3, 2, 5, 10:], np.sqrt(5.0) * np.array(D).reshape(-1), atol=2e-6
    )
    total = grid.qw.sum().item() * grid.res_alpha * grid.res_gamma
    assert abs(total - 1.0) < 1e-6
    assert grid.parameters() == {}


def test_one_vector_needs_no_batch():
    assert o3.ToS2Grid(1, (4, 3))(mx.zeros(4)).shape == (4, 3)
    assert o3.FromS2Grid((4, 3), 1)(mx.zeros((4, 3))).shape == (4,)
    assert o3.ToS2Grid(1, (4, 3))(mx.zeros((0, 4))).shape == (0, 4, 3)
    grid = o3.SO3Grid(1, 2)
    values = grid.to_grid(mx.zeros((0, 10)))
    assert values.shape[0] == 0
    assert grid.from_grid(values).shape == (0, 10)
    assert "6x5 (beta x alpha)" in repr(o3.ToS2Grid(2))
