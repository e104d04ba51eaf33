"""Change between real and complex components, and the generators of rotations."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
from jaxtyping import Complex, Float

from .wigner3j import real_to_complex


def change_basis_real_to_complex(l: int) -> Complex[mx.array, "dim dim"]:
    """Unitary matrix Q with complex components = Q real components, complex64.

    Args:
        l: degree.

    Returns:
        (2l+1, 2l+1); with the phase (-i)^l that makes coupling coefficients real.
    """
    return mx.array(real_to_complex(l).astype(np.complex64))


def su2_generators(j: int) -> Complex[mx.array, "3 dim dim"]:
    """Anti-Hermitian generators of turns about x, y, z in the complex basis, complex64.

    Args:
        j: degree, an integer.

    Returns:
        (3, 2j+1, 2j+1), polar axis y.
    """
    return mx.array(_complex_generators(j).astype(np.complex64))


def so3_generators(l: int, dtype: mx.Dtype = mx.float32) -> Float[mx.array, "3 dim dim"]:
    """Antisymmetric generators of turns about x, y, z in the real basis.

    D = exp(angle X[i]) for a turn about axis i.

    Args:
        l: degree.
        dtype: floating-point type.

    Returns:
        (3, 2l+1, 2l+1).
    """
    q = real_to_complex(l)
    return mx.array(np.real(q.conj().T @ _complex_generators(l) @ q), dtype=dtype)


def _complex_generators(j: int) -> np.ndarray:
    m = np.arange(-j, j + 1)
    ladder = np.diag(np.sqrt(j * (j + 1) - m[:-1] * (m[:-1] + 1.0)), 1)
    return np.stack([0.5 * (ladder - ladder.T), np.diag(1j * m), 0.5j * (ladder + ladder.T)])
