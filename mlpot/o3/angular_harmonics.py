"""Spherical harmonics of angles, and the Legendre functions they are made of.

Y_l^m(alpha, beta) = P_l^m(cos beta, sin beta) s_m(alpha), with s_0 = 1, s_m = sqrt(2) cos(m alpha)
and s_(-m) = sqrt(2) sin(m alpha). The point is Ry(alpha) Rx(beta) applied to the y axis.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, lru_cache
from math import factorial, pi, sqrt

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from jaxtyping import Float

from mlpot.kernels import Constant, cos, sin

from .arrays import as_floats
from .harmonics import check_normalization, degree_factors
from .irrep import Irrep
from .irreps import Irreps


class Legendre(nn.Module):
    """Associated Legendre functions with the norm of ``integral`` spherical harmonics.

    P_l^m(z, y) = N_lm y^m (d/dz)^m P_l(z), N_lm^2 = (2l+1)/(4 pi) (l-m)!/(l+m)!, without the
    Condon-Shortley sign. They are polynomials in z and y; on the sphere z = cos(beta) and
    y = sin(beta). Recurrence in l for all m at once:
    (l+1-m) P_(l+1)^m = (2l+1) z P_l^m - (l+m) P_(l-1)^m.

    Args:
        ls: degrees.

    Raises:
        ValueError: negative degree.
    """

    def __init__(self, ls: Iterable[int]) -> None:
        super().__init__()
        self.ls = tuple(Irrep(l, 1).l for l in ls)

    def __call__(
        self, z: Float[mx.array, "..."], y: Float[mx.array, "..."]
    ) -> Float[mx.array, "... dim"]:
        """Values (..., dim): for each degree the orders abs(m), m = -l..l.

        Args:
            z: (...).
            y: (...).
        """
        z, y = mx.broadcast_arrays(*as_floats(z, y))
        if not self.ls:
            return mx.zeros((*z.shape, 0), dtype=z.dtype)
        z, y = z[..., None], y[..., None]
        lmax = max(self.ls)
        powers = [mx.ones_like(y)]
        for _ in range(lmax):
            powers.append(powers[-1] * y)
        powers_of_y = mx.concatenate(powers, axis=-1)
        rows = [mx.full(z.shape, 1.0 / sqrt(4.0 * pi), dtype=z.dtype)]
        for l in range(lmax):
            rise, fall, top = _recurrence(l)
            inner = rise(z.dtype) * (z * rows[l])
            if l > 0:
                lower = fall(z.dtype) * rows[l - 1]
                inner = inner - mx.concatenate([lower, mx.zeros_like(z)], axis=-1)
            rows.append(mx.concatenate([inner, mx.full(z.shape, top, dtype=z.dtype)], axis=-1))
        blocks = []
        for l in self.ls:
            block = rows[l] * powers_of_y[..., : l + 1]
            blocks += [block[..., :0:-1], block] if l > 0 else [block]
        return mx.concatenate(blocks, axis=-1)

    def _extra_repr(self) -> str:
        return f"ls={list(self.ls)}"


class SphericalHarmonicsAlphaBeta(nn.Module):
    """Spherical harmonics of angles; see spherical_harmonics_alpha_beta.

    Args:
        l: degree, degrees or irreps (their parities do not matter).
        normalization: ``"integral"``, ``"component"`` or ``"norm"``.

    Raises:
        ValueError: unknown normalization or negative degree.
    """

    def __init__(
        self, l: int | Iterable[int] | str | Irrep | Irreps, normalization: str = "integral"
    ) -> None:
        super().__init__()
        if isinstance(l, str | Irrep | Irreps):
            degrees = Irreps(l).ls
        else:
            degrees = [l] if isinstance(l, int) else list(l)
        self.normalization = check_normalization(normalization)
        self.legendre = Legendre(degrees)
        # Legendre functions are those of "integral" already.
        factors = degree_factors(degrees, normalization) / degree_factors(degrees, "integral")
        self._scale = None if normalization == "integral" else Constant(factors)

    def __call__(
        self, alpha: Float[mx.array, "..."], beta: Float[mx.array, "..."]
    ) -> Float[mx.array, "... dim"]:
        """Harmonics (..., dim) of angles (...), radians."""
        alpha, beta = mx.broadcast_arrays(*as_floats(alpha, beta))
        values = self.legendre(cos(beta), sin(beta))
        degrees = self.legendre.ls
        if not degrees:
            return values
        lmax = max(degrees)
        around = spherical_harmonics_alpha(lmax, alpha)
        parts = [around[..., lmax - l : lmax + l + 1] for l in degrees]
        values = values * mx.concatenate(parts, axis=-1)
        return values if self._scale is None else values * self._scale(values.dtype)

    def _extra_repr(self) -> str:
        return f"normalization={self.normalization}"


def spherical_harmonics_alpha_beta(
    l: int | Iterable[int] | str | Irrep | Irreps,
    alpha: Float[mx.array, "..."],
    beta: Float[mx.array, "..."],
    *,
    normalization: str = "integral",
) -> Float[mx.array, "... dim"]:
    """Spherical harmonics of the point (sin b sin a, cos b, sin b cos a).

    Args:
        l: degree, degrees or irreps.
        alpha: (...), radians.
        beta: (...), radians.
        normalization: ``"integral"``, ``"component"`` or ``"norm"``.

    Returns:
        (..., dim).

    Raises:
        ValueError: unknown normalization or negative degree.
    """
    key = l if isinstance(l, int | str | Irrep | Irreps) else tuple(l)
    return _cached(key, normalization)(alpha, beta)


def spherical_harmonics_alpha(
    l: int, alpha: Float[mx.array, "*batch"]
) -> Float[mx.array, "*batch dim"]:
    """The factor of the angle alpha: sqrt(2) sin(m alpha), m = l..1; 1; sqrt(2) cos(m alpha).

    Args:
        l: degree.
        alpha: (...), radians.

    Returns:
        (..., 2l+1).
    """
    (alpha,) = as_floats(alpha)
    multiples = alpha[..., None] * mx.arange(1, l + 1).astype(alpha.dtype)
    one = mx.ones((*alpha.shape, 1), dtype=alpha.dtype)
    if l == 0:
        return one
    sines, cosines = sqrt(2.0) * sin(multiples), sqrt(2.0) * cos(multiples)
    return mx.concatenate([sines[..., ::-1], one, cosines], axis=-1)


@lru_cache(maxsize=64)
def _cached(l, normalization: str) -> SphericalHarmonicsAlphaBeta:
    return SphericalHarmonicsAlphaBeta(l, normalization)


@cache
def _recurrence(l: int) -> tuple[Constant, Constant, float]:
    """Factors that lead to degree l + 1: for z P_l, for P_(l-1), and the value at m = l + 1."""

    def norm(degree: int, m: int) -> float:
        ratio = factorial(degree - m) / factorial(degree + m)
        return sqrt((2 * degree + 1) / (4.0 * pi) * ratio)

    rise = [(2 * l + 1) / (l + 1 - m) * norm(l + 1, m) / norm(l, m) for m in range(l + 1)]
    fall = [(l + m) / (l + 1 - m) * norm(l + 1, m) / norm(l - 1, m) for m in range(l)]
    double_factorial = float(np.prod(np.arange(1, 2 * l + 2, 2), dtype=np.float64))
    return Constant(rise), Constant(fall), double_factorial * norm(l + 1, l + 1)
