"""The group of rotations in each parametrisation: identity, inverse and product."""

from __future__ import annotations

import mlx.core as mx
from jaxtyping import Float

from .arrays import as_floats, check_last_axis
from .rotation import (
    Angles,
    angles_to_matrix,
    axis_angle_to_quaternion,
    proper_matrix_to_angles,
    quaternion_to_axis_angle,
)


def identity_angles(*shape: int, dtype: mx.Dtype = mx.float32) -> Angles:
    """Angles of the identity, each of the given shape."""
    return mx.zeros(shape, dtype), mx.zeros(shape, dtype), mx.zeros(shape, dtype)


def identity_quaternion(*shape: int, dtype: mx.Dtype = mx.float32) -> Float[mx.array, "*batch 4"]:
    """Quaternions of the identity, (*shape, 4)."""
    return mx.broadcast_to(mx.array([1.0, 0.0, 0.0, 0.0], dtype=dtype), (*shape, 4))


def inverse_angles(a, b, c) -> Angles:
    """Angles of the inverse rotation: (-c, -b, -a)."""
    a, b, c = as_floats(a, b, c)
    return -c, -b, -a


def inverse_quaternion(q: Float[mx.array, "*batch 4"]) -> Float[mx.array, "*batch 4"]:
    """Inverse of unit quaternions (..., 4)."""
    check_last_axis("q", q, 4)
    return mx.concatenate([q[..., :1], -q[..., 1:]], axis=-1)


def compose_angles(a1, b1, c1, a2, b2, c2) -> Angles:
    """Angles of R(a1, b1, c1) R(a2, b2, c2)."""
    a1, b1, c1, a2, b2, c2 = as_floats(a1, b1, c1, a2, b2, c2)
    return proper_matrix_to_angles(angles_to_matrix(a1, b1, c1) @ angles_to_matrix(a2, b2, c2))


def compose_quaternion(
    q1: Float[mx.array, "... 4"], q2: Float[mx.array, "... 4"]
) -> Float[mx.array, "... 4"]:
    """Hamilton's product q1 q2: the rotation q2 followed by q1."""
    check_last_axis("q1", q1, 4)
    check_last_axis("q2", q2, 4)
    q1, q2 = mx.broadcast_arrays(q1, q2)
    v1, v2 = q1[..., 1:], q2[..., 1:]
    real = q1[..., :1] * q2[..., :1] - mx.sum(v1 * v2, axis=-1, keepdims=True)
    vector = q1[..., :1] * v2 + q2[..., :1] * v1 + mx.linalg.cross(v1, v2)
    return mx.concatenate([real, vector], axis=-1)


def compose_axis_angle(axis1, angle1, axis2, angle2) -> tuple[mx.array, mx.array]:
    """Axis (..., 3) and angle (...) of the turn 2 followed by the turn 1."""
    axis1, angle1, axis2, angle2 = as_floats(axis1, angle1, axis2, angle2)
    return quaternion_to_axis_angle(
        compose_quaternion(
            axis_angle_to_quaternion(axis1, angle1), axis_angle_to_quaternion(axis2, angle2)
        )
    )
