"""Rotations as matrices, angles, quaternions, and axis with angle, and how they convert.

Angles (alpha, beta, gamma) mean R = Ry(alpha) Rx(beta) Ry(gamma), in radians. Quaternions have
their real part first. Every function takes any leading dimensions, broadcasts them, and
differentiates; numbers are accepted where arrays are.
"""

from __future__ import annotations

import mlx.core as mx
from jaxtyping import Float

from mlpot.kernels import cos, sin

from .arrays import as_floats, check_last_axis

Angles = tuple[mx.array, mx.array, mx.array]


def matrix_x(angle) -> Float[mx.array, "*batch 3 3"]:
    """Turn about the x axis by ``angle`` (...), radians."""
    (angle,) = as_floats(angle)
    c, s, one, zero = cos(angle), sin(angle), mx.ones_like(angle), mx.zeros_like(angle)
    return _matrix([[one, zero, zero], [zero, c, -s], [zero, s, c]])


def matrix_y(angle) -> Float[mx.array, "*batch 3 3"]:
    """Turn about the y axis by ``angle`` (...), radians."""
    (angle,) = as_floats(angle)
    c, s, one, zero = cos(angle), sin(angle), mx.ones_like(angle), mx.zeros_like(angle)
    return _matrix([[c, zero, s], [zero, one, zero], [-s, zero, c]])


def matrix_z(angle) -> Float[mx.array, "*batch 3 3"]:
    """Turn about the z axis by ``angle`` (...), radians."""
    (angle,) = as_floats(angle)
    c, s, one, zero = cos(angle), sin(angle), mx.ones_like(angle), mx.zeros_like(angle)
    return _matrix([[c, -s, zero], [s, c, zero], [zero, zero, one]])


def angles_to_matrix(alpha, beta, gamma) -> Float[mx.array, "*batch 3 3"]:
    """R = Ry(alpha) Rx(beta) Ry(gamma); (...) radians each, (..., 3, 3)."""
    alpha, beta, gamma = mx.broadcast_arrays(*as_floats(alpha, beta, gamma))
    return matrix_y(alpha) @ matrix_x(beta) @ matrix_y(gamma)


def matrix_to_angles(R: Float[mx.array, "*batch 3 3"]) -> Angles:
    """Angles of rotation matrices (determinant 1).

    Where beta = 0 only alpha + gamma matters: alpha is 0.

    Returns:
        alpha, beta, gamma, (...) each: alpha and gamma in (-pi, pi], beta in [0, pi].

    Raises:
        ValueError: the last axes are not 3 and 3, or a matrix is improper.
    """
    _check_rotation(R)
    return proper_matrix_to_angles(R)


def angles_to_quaternion(alpha, beta, gamma) -> Float[mx.array, "*batch 4"]:
    """Unit quaternions (..., 4) of angles (...)."""
    alpha, beta, gamma = mx.broadcast_arrays(*as_floats(alpha, beta, gamma))
    mean, half_difference = 0.5 * (alpha + gamma), 0.5 * (alpha - gamma)
    c, s = cos(0.5 * beta), sin(0.5 * beta)
    parts = [c * cos(mean), s * cos(half_difference), c * sin(mean), -s * sin(half_difference)]
    return mx.stack(parts, axis=-1)


def quaternion_to_angles(q: Float[mx.array, "*batch 4"]) -> Angles:
    """Angles (...) of quaternions (..., 4) of any length but zero."""
    return proper_matrix_to_angles(quaternion_to_matrix(q))


def quaternion_to_matrix(q: Float[mx.array, "*batch 4"]) -> Float[mx.array, "*batch 3 3"]:
    """Rotation matrices (..., 3, 3) of quaternions (..., 4) of any length but zero."""
    check_last_axis("q", q, 4)
    w, x, y, z = (q[..., i] for i in range(4))
    scale = 2.0 / (w * w + x * x + y * y + z * z)
    xx, yy, zz = scale * x * x, scale * y * y, scale * z * z
    xy, yz, zx = scale * x * y, scale * y * z, scale * z * x
    wx, wy, wz = scale * w * x, scale * w * y, scale * w * z
    return _matrix(
        [
            [1.0 - yy - zz, xy - wz, zx + wy],
            [xy + wz, 1.0 - xx - zz, yz - wx],
            [zx - wy, yz + wx, 1.0 - xx - yy],
        ]
    )


def matrix_to_quaternion(R: Float[mx.array, "*batch 3 3"]) -> Float[mx.array, "*batch 4"]:
    """Unit quaternions (..., 4) of rotation matrices, real part not negative.

    All 4 q q^T is linear in R; its row of the largest diagonal is a stable multiple of q
    (Shepperd 1978).

    Raises:
        ValueError: the last axes are not 3 and 3, or a matrix is improper.
    """
    _check_rotation(R)
    r = [[R[..., i, j] for j in range(3)] for i in range(3)]
    wx, wy, wz = r[2][1] - r[1][2], r[0][2] - r[2][0], r[1][0] - r[0][1]
    xy, yz, zx = r[0][1] + r[1][0], r[1][2] + r[2][1], r[2][0] + r[0][2]
    square = [
        [1.0 + r[0][0] + r[1][1] + r[2][2], wx, wy, wz],
        [wx, 1.0 + r[0][0] - r[1][1] - r[2][2], xy, zx],
        [wy, xy, 1.0 - r[0][0] + r[1][1] - r[2][2], yz],
        [wz, zx, yz, 1.0 - r[0][0] - r[1][1] + r[2][2]],
    ]
    rows = mx.stack([mx.stack(row, axis=-1) for row in square], axis=-2)
    diagonal = mx.stack([square[i][i] for i in range(4)], axis=-1)
    largest = mx.stop_gradient(mx.argmax(diagonal, axis=-1, keepdims=True))
    row = mx.take_along_axis(rows, largest[..., None], axis=-2)[..., 0, :]
    row = mx.where(row[..., :1] < 0.0, -row, row)
    return row / mx.sqrt(mx.sum(row * row, axis=-1, keepdims=True))


def axis_angle_to_quaternion(xyz: Float[mx.array, "... 3"], angle) -> Float[mx.array, "... 4"]:
    """Unit quaternions (..., 4) of a turn by ``angle`` (...) about ``xyz`` (..., 3)."""
    xyz, angle = as_floats(xyz, angle)
    check_last_axis("xyz", xyz, 3)
    vector = _direction(xyz) * sin(0.5 * angle)[..., None]
    real = mx.broadcast_to(cos(0.5 * angle)[..., None], (*vector.shape[:-1], 1))
    return mx.concatenate([real, vector], axis=-1)


def quaternion_to_axis_angle(q: Float[mx.array, "*batch 4"]) -> tuple[mx.array, mx.array]:
    """Axis (..., 3) of length 1 and angle (...) in [0, 2 pi] of quaternions (..., 4).

    The identity has the axis zero.
    """
    check_last_axis("q", q, 4)
    return _direction(q[..., 1:]), 2.0 * _arctan2(_length(q[..., 1:]), q[..., 0])


def matrix_to_axis_angle(R: Float[mx.array, "*batch 3 3"]) -> tuple[mx.array, mx.array]:
    """Axis (..., 3) of length 1 and angle (...) in [0, pi] of rotation matrices.

    Raises:
        ValueError: the last axes are not 3 and 3, or a matrix is improper.
    """
    return quaternion_to_axis_angle(matrix_to_quaternion(R))


def axis_angle_to_matrix(axis, angle) -> Float[mx.array, "*batch 3 3"]:
    """Matrices (..., 3, 3) of a turn by ``angle`` (...) about ``axis`` (..., 3)."""
    return quaternion_to_matrix(axis_angle_to_quaternion(axis, angle))


def axis_angle_to_angles(axis, angle) -> Angles:
    """Angles (...) of a turn by ``angle`` (...) about ``axis`` (..., 3)."""
    return proper_matrix_to_angles(axis_angle_to_matrix(axis, angle))


def angles_to_axis_angle(alpha, beta, gamma) -> tuple[mx.array, mx.array]:
    """Axis (..., 3) and angle (...) in [0, pi] of angles (...)."""
    q = angles_to_quaternion(alpha, beta, gamma)
    return quaternion_to_axis_angle(mx.where(q[..., :1] < 0.0, -q, q))


def angles_to_xyz(alpha, beta) -> Float[mx.array, "*batch 3"]:
    """Points of the unit sphere (..., 3): the image of the y axis under Ry(alpha) Rx(beta)."""
    alpha, beta = mx.broadcast_arrays(*as_floats(alpha, beta))
    s = sin(beta)
    return mx.stack([s * sin(alpha), cos(beta), s * cos(alpha)], axis=-1)


def xyz_to_angles(xyz: Float[mx.array, "*batch 3"]) -> tuple[mx.array, mx.array]:
    """Angles alpha in (-pi, pi] and beta in [0, pi], (...), of vectors (..., 3)."""
    check_last_axis("xyz", xyz, 3)
    x, y, z = xyz[..., 0], xyz[..., 1], xyz[..., 2]
    return _arctan2(x, z), _arctan2(_length(xyz[..., ::2]), y)


def _matrix(rows: list[list[mx.array]]) -> mx.array:
    return mx.stack([mx.stack(row, axis=-1) for row in rows], axis=-2)


def _length(v: mx.array) -> mx.array:
    """Length of vectors; zero with zero derivatives for the zero vector."""
    squared = mx.sum(v * v, axis=-1)
    is_zero = squared == 0.0
    root = mx.sqrt(mx.where(is_zero, mx.ones_like(squared), squared))
    return mx.where(is_zero, mx.zeros_like(root), root)


def _direction(v: mx.array) -> mx.array:
    """Vectors divided by their length; the zero vector stays."""
    length = _length(v)[..., None]
    return v / mx.where(length == 0.0, mx.ones_like(length), length)


def _arctan2(y: mx.array, x: mx.array) -> mx.array:
    """Angle of (x, y); zero with zero derivatives at the origin."""
    at_origin = (x == 0.0) & (y == 0.0)
    return mx.arctan2(y, mx.where(at_origin, mx.ones_like(x), x))


def proper_matrix_to_angles(R: Float[mx.array, "*batch 3 3"]) -> Angles:
    """matrix_to_angles for matrices that are known to be rotations."""
    alpha, beta = xyz_to_angles(R[..., :, 1])
    c, s = cos(alpha), sin(alpha)
    first_row = [c * R[..., 0, j] - s * R[..., 2, j] for j in (0, 2)]
    return alpha, beta, _arctan2(first_row[1], first_row[0])


def check_matrix(R: mx.array) -> None:
    """Raises ValueError unless the last axes of ``R`` are 3 and 3."""
    if R.ndim < 2 or R.shape[-2:] != (3, 3):
        raise ValueError(f"R has the shape {tuple(R.shape)}; its last two axes must be 3 and 3")


def determinant(R: Float[mx.array, "*batch 3 3"]) -> Float[mx.array, "*batch"]:
    """Determinants (...) of 3 x 3 matrices (..., 3, 3)."""
    check_matrix(R)
    a, b, c = (R[..., i, :] for i in range(3))
    return mx.sum(a * mx.linalg.cross(b, c), axis=-1)


def _check_rotation(R: mx.array) -> None:
    check_matrix(R)
    improper = mx.any(mx.abs(determinant(mx.stop_gradient(R)) - 1.0) > 1e-2)
    try:
        found = improper.item()
    except (ValueError, RuntimeError):
        # Inside mx.compile and mx.vmap there are no numbers to look at.
        return
    if found:
        raise ValueError(
            "a matrix has a determinant that is not 1; split off the inversion first, "
            "or use Irreps.D_from_matrix, which takes improper matrices"
        )
