"""Random rotations, uniform over the group (Haar measure)."""

from __future__ import annotations

import math

import mlx.core as mx
from jaxtyping import Float

from .rotation import Angles, angles_to_axis_angle, angles_to_matrix, angles_to_quaternion


def rand_angles(*shape: int, dtype: mx.Dtype = mx.float32, key: mx.array | None = None) -> Angles:
    """Angles of random rotations.

    Args:
        shape: shape of each of the three arrays.
        dtype: floating-point type.
        key: key of the random generator; the global state if None.

    Returns:
        alpha and gamma in [0, 2 pi), beta in [0, pi] with density sin(beta) / 2.
    """
    u = _uniform((3, *shape), dtype, key)
    return 2.0 * math.pi * u[0], mx.arccos(2.0 * u[1] - 1.0), 2.0 * math.pi * u[2]


def rand_matrix(
    *shape: int, dtype: mx.Dtype = mx.float32, key: mx.array | None = None
) -> Float[mx.array, "*shape 3 3"]:
    """Random rotation matrices (*shape, 3, 3)."""
    return angles_to_matrix(*rand_angles(*shape, dtype=dtype, key=key))


def rand_quaternion(
    *shape: int, dtype: mx.Dtype = mx.float32, key: mx.array | None = None
) -> Float[mx.array, "*shape 4"]:
    """Random unit quaternions (*shape, 4)."""
    return angles_to_quaternion(*rand_angles(*shape, dtype=dtype, key=key))


def rand_axis_angle(
    *shape: int, dtype: mx.Dtype = mx.float32, key: mx.array | None = None
) -> tuple[mx.array, mx.array]:
    """Axes (*shape, 3) of length 1 and angles (*shape) in [0, pi] of random rotations."""
    return angles_to_axis_angle(*rand_angles(*shape, dtype=dtype, key=key))


def _uniform(shape: tuple[int, ...], dtype: mx.Dtype, key: mx.array | None) -> mx.array:
    # MLX draws no float64 numbers.
    drawn_as = mx.float32 if dtype == mx.float64 else dtype
    return mx.random.uniform(shape=shape, dtype=drawn_as, key=key).astype(dtype)
