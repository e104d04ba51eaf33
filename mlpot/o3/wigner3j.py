"""Coupling coefficients of three irreps in the real basis, from exact integers.

The complex Clebsch-Gordan coefficients are Racah's sum written with binomials,

    <l1 m1 l2 m2 | l3 m3> = S sqrt(R),
    S = sum_k (-1)^k C(a, k) C(b, l1-m1-k) C(c, l2+m2-k),
    R = (2 l3+1) (l1+m1)!(l1-m1)! (l2+m2)!(l2-m2)! (l3+m3)!(l3-m3)! / (a! b! c! (l1+l2+l3+1)!),
    a = l1+l2-l3,  b = l1-l2+l3,  c = -l1+l2+l3,

(Edmonds 1957, eq. 3.6.11), with S and R exact, so each coefficient carries two roundings for any
degree. The real basis follows by the change of basis of each irrep.
"""

from __future__ import annotations

from functools import cache
from math import comb, factorial, sqrt

import mlx.core as mx
import numpy as np
from jaxtyping import Float

from mlpot.kernels import Constant


def wigner_3j_numpy(l1: int, l2: int, l3: int) -> np.ndarray:
    """Wigner 3j symbols of the real basis, unit Frobenius norm, with e3nn's signs.

    The invariant tensor of three irreps: C = D1 D2 D3 C for every rotation.

    Args:
        l1: degree of the first axis.
        l2: degree of the second axis.
        l3: degree of the third axis; abs(l1 - l2) <= l3 <= l1 + l2.

    Returns:
        (2 l1 + 1, 2 l2 + 1, 2 l3 + 1), float64, read-only (cached).

    Raises:
        ValueError: the degrees cannot be coupled.
    """
    if min(l1, l2, l3) < 0 or not abs(l1 - l2) <= l3 <= l1 + l2:
        raise ValueError(
            f"degrees {l1}, {l2}, {l3} cannot be coupled: abs(l1 - l2) <= l3 <= l1 + l2 must hold"
        )
    return _wigner_3j(int(l1), int(l2), int(l3))


def wigner_3j(
    l1: int, l2: int, l3: int, dtype: mx.Dtype = mx.float32
) -> Float[mx.array, "dim1 dim2 dim3"]:
    """Wigner 3j symbols of the real basis, unit Frobenius norm, with e3nn's signs.

    Args:
        l1: degree of the first axis.
        l2: degree of the second axis.
        l3: degree of the third axis; abs(l1 - l2) <= l3 <= l1 + l2.
        dtype: floating-point type.

    Returns:
        (2 l1 + 1, 2 l2 + 1, 2 l3 + 1).

    Raises:
        ValueError: the degrees cannot be coupled.
    """
    wigner_3j_numpy(l1, l2, l3)
    return _constant(int(l1), int(l2), int(l3))(dtype)


def clebsch_gordan(
    l1: int, l2: int, l3: int, dtype: mx.Dtype = mx.float32
) -> Float[mx.array, "dim1 dim2 dim3"]:
    """Clebsch-Gordan coefficients of the real basis: sqrt(2 l3 + 1) times the 3j symbols.

    For every pair of components of l3 the sum over the first two axes is 1 or 0, so the map from
    the product of two irreps to the third is an isometry on its image.

    Args:
        l1: degree of the first axis.
        l2: degree of the second axis.
        l3: degree of the third axis; abs(l1 - l2) <= l3 <= l1 + l2.
        dtype: floating-point type.

    Returns:
        (2 l1 + 1, 2 l2 + 1, 2 l3 + 1).

    Raises:
        ValueError: the degrees cannot be coupled.
    """
    return mx.array(sqrt(2 * l3 + 1) * wigner_3j_numpy(l1, l2, l3), dtype=dtype)


def real_to_complex(l: int) -> np.ndarray:
    """Change of basis from real to complex components.

    Args:
        l: degree.

    Returns:
        (2l+1, 2l+1) unitary complex128 matrix Q: complex = Q real. Its phase (-i)^l makes the
        coupling coefficients real.
    """
    q = np.zeros((2 * l + 1, 2 * l + 1), dtype=np.complex128)
    q[l, l] = 1.0
    half = sqrt(0.5)
    for m in range(1, l + 1):
        q[l - m, l + m] = half
        q[l - m, l - m] = -1j * half
        q[l + m, l + m] = (-1) ** m * half
        q[l + m, l - m] = (-1) ** m * 1j * half
    return (1, -1j, -1, 1j)[l % 4] * q


@cache
def _constant(l1: int, l2: int, l3: int) -> Constant:
    return Constant(_wigner_3j(l1, l2, l3))


@cache
def _wigner_3j(l1: int, l2: int, l3: int) -> np.ndarray:
    in_complex_basis = _complex_clebsch_gordan(l1, l2, l3) / sqrt(2 * l3 + 1)
    half_way = np.tensordot(in_complex_basis, real_to_complex(l3).conj(), axes=(2, 0))
    half_way = np.tensordot(real_to_complex(l2), half_way, axes=(0, 1))
    symbols = np.real(np.tensordot(real_to_complex(l1), half_way, axes=(0, 1)))
    # Sums that cancel leave rounding noise; the smallest true entry through l = 11 is 1.8e-4.
    symbols = np.where(np.abs(symbols) < 1e-14, 0.0, symbols)
    symbols.setflags(write=False)
    return symbols


def _complex_clebsch_gordan(l1: int, l2: int, l3: int) -> np.ndarray:
    """(2 l1 + 1, 2 l2 + 1, 2 l3 + 1) coefficients <l1 m1 l2 m2 | l3 m3>."""
    a, b, c = l1 + l2 - l3, l1 - l2 + l3, -l1 + l2 + l3
    f = [factorial(n) for n in range(l1 + l2 + l3 + 2)]
    denominator = f[a] * f[b] * f[c] * f[-1]
    weights = [[f[l + m] * f[l - m] for m in range(-l, l + 1)] for l in (l1, l2, l3)]
    binomials = [[comb(n, k) for k in range(n + 1)] for n in (a, b, c)]
    table = np.zeros((2 * l1 + 1, 2 * l2 + 1, 2 * l3 + 1))
    for m1 in range(-l1, l1 + 1):
        for m2 in range(max(-l2, -l3 - m1), min(l2, l3 - m1) + 1):
            m3 = m1 + m2
            total = 0
            for k in range(max(0, l1 - m1 - b, l2 + m2 - c), min(a, l1 - m1, l2 + m2) + 1):
                term = binomials[0][k] * binomials[1][l1 - m1 - k] * binomials[2][l2 + m2 - k]
                total += -term if k % 2 else term
            ratio = weights[0][l1 + m1] * weights[1][l2 + m2] * weights[2][l3 + m3] * (2 * l3 + 1)
            size = sqrt(total * total * ratio / denominator)
            table[l1 + m1, l2 + m2, l3 + m3] = size if total >= 0 else -size
    return table
