"""Representation matrices: group law, orthogonality, inversion, generators, derivatives."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nestings import check_nestings

from mlpot import o3

seeds = st.integers(0, 2**31)


@pytest.fixture(autouse=True)
def on_cpu():
    with mx.stream(mx.cpu):
        yield


def rotation(seed):
    return mx.array(np.random.default_rng(seed).uniform(-4.0, 4.0, 3), dtype=mx.float64)


def same(a, b, tolerance=1e-13):
    np.testing.assert_allclose(np.array(a), np.array(b), rtol=0, atol=tolerance)


@given(st.integers(0, 11), seeds, seeds)
def test_group_law_and_orthogonality(l, first, second):
    a, b = rotation(first), rotation(second)
    D1, D2 = o3.wigner_D(l, *a), o3.wigner_D(l, *b)
    same(D1 @ D1.T, np.eye(2 * l + 1))
    same(o3.wigner_D(l, *o3.inverse_angles(*a)), D1.T)
    same(o3.wigner_D(l, *o3.compose_angles(*a, *b)), D1 @ D2, 1e-12)


@given(seeds)
def test_degree_1_is_the_matrix_itself(seed):
    angles = rotation(seed)
    same(o3.wigner_D(1, *angles), o3.angles_to_matrix(*angles))


@given(st.integers(0, 11))
def test_generators_are_the_derivatives_at_the_identity(l):
    X = np.array(o3.so3_generators(l, dtype=mx.float64))
    step = 1e-4
    for i, axis in enumerate(np.eye(3)):
        plus, minus = (
            np.array(
                o3.Irrep(l, 1).D_from_axis_angle(
                    mx.array(axis, dtype=mx.float64), mx.array(s, dtype=mx.float64)
                )
            )
            for s in (step, -step)
        )
        np.testing.assert_allclose((plus - minus) / (2 * step), X[i], rtol=0, atol=1e-5)
    # [X, Y] = Z and cyclic.
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        same(X[i] @ X[j] - X[j] @ X[i], X[k], 1e-12)


def test_complex_basis():
    for l in range(5):
        Q = np.array(o3.change_basis_real_to_complex(l))
        same(Q @ Q.conj().T, np.eye(2 * l + 1), 1e-6)
        real = Q.conj().T @ np.array(o3.su2_generators(l)) @ Q
        same(real, np.array(o3.so3_generators(l)), 1e-5)


@given(seeds)
def test_blocks_inversions_and_every_way_in(seed):
    irreps = o3.Irreps("2x1o+0x2e+0e+0o+1e+2o")
    angles = rotation(seed)
    R = o3.angles_to_matrix(*angles)
    D = np.array(irreps.D_from_angles(*angles))
    assert D.shape == (irreps.dim, irreps.dim)
    expected = np.zeros_like(D)
    start = 0
    for mul, ir in irreps:
        for _ in range(mul):
            block = slice(start, start + ir.dim)
            expected[block, block] = np.array(ir.D_from_matrix(R))
            start += ir.dim
    same(D, expected)
    same(irreps.D_from_quaternion(o3.angles_to_quaternion(*angles)), D, 1e-12)
    same(irreps.D_from_axis_angle(*o3.matrix_to_axis_angle(R)), D, 1e-12)
    signs = np.array([ir.p for mul, ir in irreps for _ in range(mul * ir.dim)])
    same(irreps.D_from_matrix(-R), D * signs[:, None], 1e-12)
    same(irreps.D_from_angles(*angles, 3), D * signs[:, None])
    same(irreps.D_from_angles(*angles, 2), D)


def test_leading_dimensions_broadcast():
    irreps = o3.Irreps("2x1o+0o")
    a, b, c = mx.zeros((4, 1)), mx.zeros(5), 0.3
    assert o3.wigner_D(2, a, b, c).shape == (4, 5, 5, 5)
    assert irreps.D_from_angles(a, b, c).shape == (4, 5, 7, 7)
    k = mx.array([[0], [1], [0], [1]])
    D = np.array(irreps.D_from_angles(a, b, c, k))
    np.testing.assert_allclose(D[1], -D[0], atol=1e-7)
    assert irreps.D_from_angles(0.1, 0.2, 0.3, k).shape == (4, 1, 7, 7)
    assert irreps.D_from_matrix(o3.rand_matrix(2, 3)).shape == (2, 3, 7, 7)
    assert o3.Irreps("").D_from_angles(a, b, c).shape == (4, 5, 0, 0)
    assert o3.Irrep("0o").D_from_matrix(-mx.eye(3)).tolist() == [[-1.0]]


def test_negative_degree():
    with pytest.raises(ValueError, match="at least 0"):
        o3.wigner_D(-1, 0.0, 0.0, 0.0)


def test_derivatives_by_every_nesting():
    irreps = o3.Irreps("2x1o+0e+3o")
    angles = np.random.default_rng(0).uniform(-3.0, 3.0, (2, 3))
    check_nestings(lambda x: irreps.D_from_angles(x[:, 0], x[:, 1], x[:, 2]), angles)
