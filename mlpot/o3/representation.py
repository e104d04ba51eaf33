"""Representation matrices of rotations and inversions in the real basis (Wigner D)."""

from __future__ import annotations

from functools import cache
from math import comb, sqrt

import mlx.core as mx
import numpy as np
from jaxtyping import Float

from mlpot.kernels import Constant, cos, gather, sin

from .arrays import as_floats
from .irreps import Irreps
from .rotation import Angles, determinant, proper_matrix_to_angles
from .wigner3j import real_to_complex


def wigner_D(l: int, alpha, beta, gamma) -> Float[mx.array, "*batch dim dim"]:
    """Representation matrix of degree l of R = Ry(alpha) Rx(beta) Ry(gamma).

    Turns about y only mix components m and -m, and J, the half-turn that exchanges x and y,
    makes turns about x of them: D = Y(alpha) J Y(beta) J Y(gamma).

    Args:
        l: degree, at least 0.
        alpha: (...), radians.
        beta: (...), radians.
        gamma: (...), radians.

    Returns:
        (..., 2l+1, 2l+1), orthogonal.

    Raises:
        ValueError: negative degree.
    """
    if l < 0:
        raise ValueError(f"l is {l}; it must be at least 0")
    alpha, beta, gamma = mx.broadcast_arrays(*as_floats(alpha, beta, gamma))
    if l == 0:
        return mx.ones((*alpha.shape, 1, 1), dtype=alpha.dtype)
    exchange = _exchange(l)(alpha.dtype)
    return (
        _turn_about_y(l, alpha)
        @ exchange
        @ _turn_about_y(l, beta)
        @ exchange
        @ _turn_about_y(l, gamma)
    )


def block_diagonal_D(
    irreps: Irreps, alpha, beta, gamma, k=None
) -> Float[mx.array, "*batch dim dim"]:
    """Block-diagonal representation matrix of irreps; see Irreps.D_from_angles."""
    alpha, beta, gamma = mx.broadcast_arrays(*as_floats(alpha, beta, gamma))
    if irreps.dim == 0:
        return mx.zeros((*alpha.shape, 0, 0), dtype=alpha.dtype)
    kinds = sorted({ir for mul, ir in irreps if mul > 0})
    batch = alpha.shape if k is None else mx.broadcast_arrays(alpha, mx.array(k))[0].shape
    entries = [mx.zeros((1, *batch), dtype=alpha.dtype)]
    for ir in kinds:
        D = ir.D_from_angles(alpha, beta, gamma, k)
        D = mx.broadcast_to(D, (*batch, ir.dim, ir.dim))
        entries.append(mx.moveaxis(D.reshape(*batch, ir.dim**2), -1, 0))
    index = _block_diagonal_index(irreps, kinds)
    whole = gather(mx.concatenate(entries, axis=0), mx.array(index.reshape(-1)))
    return mx.moveaxis(whole, 0, -1).reshape(*batch, irreps.dim, irreps.dim)


def split_inversion(R: Float[mx.array, "*batch 3 3"]) -> tuple[Angles, Float[mx.array, "*batch"]]:
    """Angles (...) of the proper part of orthogonal matrices, and the number of inversions.

    Returns:
        (alpha, beta, gamma) and k, 0 or 1.
    """
    improper = determinant(mx.stop_gradient(R)) < 0.0
    k = mx.where(improper, mx.ones_like(R[..., 0, 0]), mx.zeros_like(R[..., 0, 0]))
    return proper_matrix_to_angles(R * (1.0 - 2.0 * k)[..., None, None]), k


def parity_factor(k, dtype: mx.Dtype) -> Float[mx.array, "*batch 1 1"]:
    """(-1)^k of a number of inversions (...), to multiply matrices with."""
    odd = mx.remainder(mx.array(k), 2) == 1
    return mx.where(odd, mx.array(-1.0, dtype=dtype), mx.array(1.0, dtype=dtype))[..., None, None]


def _turn_about_y(l: int, angle: mx.array) -> mx.array:
    """(..., 2l+1, 2l+1): cos(m angle) on the diagonal, sin(m angle) on the other one."""
    m = mx.arange(l, -l - 1, -1).astype(angle.dtype)
    multiples = angle[..., None, None] * m[:, None]
    identity = mx.eye(2 * l + 1, dtype=angle.dtype)
    return cos(multiples) * identity + sin(multiples) * identity[::-1]


def _block_diagonal_index(irreps: Irreps, kinds: list) -> np.ndarray:
    """(dim, dim) position of every entry in [0, entries of each kind]."""
    start, starts = 1, {}
    for ir in kinds:
        starts[ir] = start
        start += ir.dim**2
    index = np.zeros((irreps.dim, irreps.dim), dtype=np.int32)
    offset = 0
    for mul, ir in irreps:
        for _ in range(mul):
            block = slice(offset, offset + ir.dim)
            index[block, block] = starts[ir] + np.arange(ir.dim**2).reshape(ir.dim, ir.dim)
            offset += ir.dim
    return index


@cache
def _exchange(l: int) -> Constant:
    """Matrix of the half-turn about x + y: x -> y, y -> x, z -> -z."""
    q = real_to_complex(l)
    quarter_turn = np.real(q.conj().T @ _complex_quarter_turn(l) @ q)
    m = np.arange(l, -l - 1, -1)
    about_y = np.diag(np.cos(m * np.pi / 2).round()) + np.diag(np.sin(m * np.pi / 2).round())[::-1]
    return Constant(about_y @ quarter_turn @ about_y)


def _complex_quarter_turn(l: int) -> np.ndarray:
    """Wigner's small d at pi / 2 from exact integer sums (Edmonds 1957, eq. 4.1.15)."""
    table = np.zeros((2 * l + 1, 2 * l + 1))
    for row in range(-l, l + 1):
        for col in range(-l, l + 1):
            total = 0
            for k in range(max(0, -row - col), min(l - row, l - col) + 1):
                term = comb(l + col, l - row - k) * comb(l - col, k)
                total += -term if (l - row - k) % 2 else term
            # (l+row)!(l-row)! / ((l+col)!(l-col)!), and 2^-2l from cos and sin of pi / 4.
            numerator, denominator = comb(2 * l, l + col), comb(2 * l, l + row) * 4**l
            size = sqrt(total * total * numerator / denominator)
            table[l + row, l + col] = size if total >= 0 else -size
    return table
