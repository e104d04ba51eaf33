"""Rotations: conversions back and forth, products, singular points, random rotations."""

from __future__ import annotations

import inspect

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlpot import o3

# Special angles are drawn often: they are where conversions go wrong.
angle = st.one_of(
    st.sampled_from([0.0, np.pi, -np.pi, np.pi / 2, -np.pi / 2, 1e-9, np.pi - 1e-9]),
    st.floats(-np.pi, np.pi),
)
angles = st.tuples(angle, angle, angle)


@pytest.fixture(autouse=True)
def on_cpu():
    with mx.stream(mx.cpu):
        yield


def exact(values):
    return mx.array(np.asarray(values, dtype=np.float64), dtype=mx.float64)


def matrix(abc):
    return o3.angles_to_matrix(*exact(abc))


# The package without the shape checks of the tests, as users run it.
bare = inspect.unwrap


def same(a, b, tolerance=1e-12):
    np.testing.assert_allclose(np.array(a), np.array(b), rtol=0, atol=tolerance)


@given(angles)
def test_every_parametrisation_comes_back_to_the_matrix(abc):
    R = matrix(abc)
    same(R @ R.T, np.eye(3))
    assert abs(np.linalg.det(np.array(R)) - 1.0) < 1e-12
    q = o3.angles_to_quaternion(*exact(abc))
    same(mx.sum(q * q), 1.0)
    same(o3.quaternion_to_matrix(q), R)
    same(o3.quaternion_to_matrix(-3.0 * q), R)
    # Angles are as good as the square root of the rounding near the poles, their matrix is exact.
    same(o3.angles_to_matrix(*o3.matrix_to_angles(R)), R)
    same(o3.angles_to_matrix(*o3.quaternion_to_angles(q)), R)
    same(o3.quaternion_to_matrix(o3.matrix_to_quaternion(R)), R)
    same(o3.axis_angle_to_matrix(*o3.quaternion_to_axis_angle(q)), R)
    same(o3.axis_angle_to_matrix(*o3.matrix_to_axis_angle(R)), R)
    same(o3.axis_angle_to_matrix(*o3.angles_to_axis_angle(*exact(abc))), R)
    same(o3.angles_to_matrix(*o3.axis_angle_to_angles(*o3.matrix_to_axis_angle(R))), R)
    axis, turn = o3.matrix_to_axis_angle(R)
    assert -1e-12 <= turn.item() <= np.pi + 1e-12
    if turn.item() > 1e-6:
        same(R @ axis, axis)
        same(mx.sum(axis * axis), 1.0)


@given(angles, angles)
def test_products_and_inverses(first, second):
    R1, R2 = matrix(first), matrix(second)
    a, b = exact(first), exact(second)
    same(o3.angles_to_matrix(*o3.compose_angles(*a, *b)), R1 @ R2)
    same(o3.angles_to_matrix(*o3.inverse_angles(*a)), R1.T)
    q1, q2 = o3.angles_to_quaternion(*a), o3.angles_to_quaternion(*b)
    same(o3.quaternion_to_matrix(o3.compose_quaternion(q1, q2)), R1 @ R2)
    same(o3.compose_quaternion(q1, o3.inverse_quaternion(q1)), [1.0, 0.0, 0.0, 0.0])
    turns = *o3.quaternion_to_axis_angle(q1), *o3.quaternion_to_axis_angle(q2)
    same(o3.axis_angle_to_matrix(*o3.compose_axis_angle(*turns)), R1 @ R2)


def test_matrices_of_the_axes_turn_the_right_way():
    quarter = exact(np.pi / 2)
    x, y, z = np.eye(3)
    same(o3.matrix_x(quarter) @ exact(y), z)
    same(o3.matrix_y(quarter) @ exact(z), x)
    same(o3.matrix_z(quarter) @ exact(x), y)
    same(o3.axis_angle_to_matrix(exact(2.0 * z), quarter), np.array(o3.matrix_z(quarter)))


@given(st.floats(-np.pi, np.pi), st.floats(0.0, np.pi))
def test_points_of_the_sphere(alpha, beta):
    point = o3.angles_to_xyz(exact(alpha), exact(beta))
    same(point, (o3.matrix_y(exact(alpha)) @ o3.matrix_x(exact(beta)))[:, 1])
    same(o3.angles_to_xyz(*o3.xyz_to_angles(7.0 * point)), point)


def test_identity():
    same(o3.angles_to_matrix(*o3.identity_angles(2)), np.broadcast_to(np.eye(3), (2, 3, 3)))
    same(o3.quaternion_to_matrix(o3.identity_quaternion(2)), np.broadcast_to(np.eye(3), (2, 3, 3)))
    axis, turn = o3.quaternion_to_axis_angle(o3.identity_quaternion())
    assert (axis.tolist(), turn.item()) == ([0.0, 0.0, 0.0], 0.0)
    assert o3.identity_angles(4, 2, dtype=mx.float64)[1].dtype == mx.float64


def test_numbers_are_arrays_too():
    assert o3.angles_to_matrix(0.1, 0.2, 0.3).shape == (3, 3)
    assert o3.angles_to_matrix(exact(0.1), 0.2, 0.3).dtype == mx.float64
    assert o3.angles_to_matrix(mx.zeros((4, 1)), mx.zeros(5), 0.3).shape == (4, 5, 3, 3)
    z = exact([0.0, 0.0, 1.0])
    assert o3.axis_angle_to_matrix(z, mx.zeros((4, 5))).shape == (4, 5, 3, 3)
    same(o3.axis_angle_to_matrix(z, 0.3), o3.matrix_z(exact(0.3)))
    q = o3.axis_angle_to_quaternion(z, exact([0.1, 0.2]))
    same(o3.compose_quaternion(q, q[0]), o3.axis_angle_to_quaternion(z, exact([0.2, 0.3])))


def test_derivatives_are_finite_at_singular_points():
    operations = {
        "matrix_to_angles": mx.eye(3),
        "matrix_to_quaternion": mx.eye(3),
        "matrix_to_axis_angle": mx.eye(3),
        "quaternion_to_angles": o3.identity_quaternion(),
        "quaternion_to_axis_angle": o3.identity_quaternion(),
        "xyz_to_angles": mx.zeros(3),
    }
    for name, x in operations.items():
        operation = getattr(o3, name)

        def number(x, operation=operation):
            out = operation(x)
            return sum(mx.sum(o) for o in out) if isinstance(out, tuple) else mx.sum(out)

        first = mx.grad(number)(x)
        second = mx.grad(lambda x, f=number: mx.sum(mx.grad(f)(x) ** 2))(x)
        assert np.isfinite(np.array(first)).all(), name
        assert np.isfinite(np.array(second)).all(), name


def test_wrong_arguments_are_named():
    for operation in (o3.matrix_to_angles, o3.matrix_to_quaternion, o3.matrix_to_axis_angle):
        with pytest.raises(ValueError, match="determinant"):
            operation(-mx.eye(3))
    for operation in (o3.matrix_to_angles, o3.matrix_to_quaternion):
        with pytest.raises(ValueError, match="3 and 3"):
            bare(operation)(mx.zeros((3, 2)))
    with pytest.raises(ValueError, match="last axis must be 4"):
        bare(o3.quaternion_to_matrix)(mx.zeros(3))
    with pytest.raises(ValueError, match="last axis must be 3"):
        bare(o3.xyz_to_angles)(mx.zeros((2, 4)))


def test_conversions_run_inside_compile_and_vmap():
    R = o3.rand_matrix(5, key=mx.random.key(0))
    expected = np.array(o3.matrix_to_quaternion(R))
    same(mx.vmap(o3.matrix_to_quaternion)(R), expected, 1e-6)
    same(mx.compile(o3.matrix_to_quaternion)(R), expected, 1e-6)


@pytest.mark.parametrize(
    "name", ["rand_matrix", "rand_quaternion", "rand_angles", "rand_axis_angle"]
)
def test_random_rotations_are_uniform(name):
    drawn = getattr(o3, name)(20_000, key=mx.random.key(1), dtype=mx.float64)
    to_matrix = {
        "rand_matrix": lambda R: R,
        "rand_quaternion": o3.quaternion_to_matrix,
        "rand_angles": lambda abc: o3.angles_to_matrix(*abc),
        "rand_axis_angle": lambda turn: o3.axis_angle_to_matrix(*turn),
    }[name]
    R = np.array(to_matrix(drawn))
    assert R.shape == (20_000, 3, 3)
    np.testing.assert_allclose(np.einsum("nij,nkj->nik", R, R), np.eye(3) + 0 * R, atol=1e-12)
    # Averages over the group: of D^1 zero, of squares of its entries 1/3, of the squared trace 1.
    np.testing.assert_allclose(R.mean(axis=0), 0.0, atol=0.02)
    np.testing.assert_allclose((R**2).mean(axis=0), 1 / 3, atol=0.02)
    np.testing.assert_allclose((np.trace(R, axis1=1, axis2=2) ** 2).mean(), 1.0, atol=0.05)
    again = getattr(o3, name)(20_000, key=mx.random.key(1), dtype=mx.float64)
    assert np.array_equal(np.array(to_matrix(again)), R)
