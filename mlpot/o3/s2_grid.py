"""Grids on the sphere, their quadrature, and Fourier series around the polar axis y."""

from __future__ import annotations

from math import pi, sqrt

import mlx.core as mx
import numpy as np
from jaxtyping import Float

from .angular_harmonics import Legendre, spherical_harmonics_alpha


def s2_grid(
    res_beta: int, res_alpha: int, dtype: mx.Dtype = mx.float32
) -> tuple[Float[mx.array, " res_beta"], Float[mx.array, " res_alpha"]]:
    """Angles of a grid on the sphere: beta at the middles of equal intervals, alpha from 0.

    Args:
        res_beta: number of values of beta.
        res_alpha: number of values of alpha.
        dtype: floating-point type.

    Returns:
        betas (res_beta,) in (0, pi) and alphas (res_alpha,) in [0, 2 pi), radians.
    """
    betas, alphas = grid_angles(res_beta, res_alpha)
    return mx.array(betas, dtype=dtype), mx.array(alphas, dtype=dtype)


def spherical_harmonics_s2_grid(
    lmax: int, res_beta: int, res_alpha: int, dtype: mx.Dtype = mx.float32
) -> tuple[mx.array, mx.array, mx.array, mx.array]:
    """Integral-normalised spherical harmonics on a grid, as a product of two factors.

    Y_l^m(beta_b, alpha_a) = shb[b, (l, m)] sha[a, m].

    Args:
        lmax: largest degree.
        res_beta: number of values of beta.
        res_alpha: number of values of alpha.
        dtype: floating-point type.

    Returns:
        betas (res_beta,), alphas (res_alpha,), shb (res_beta, (lmax + 1)^2) and
        sha (res_alpha, 2 lmax + 1).
    """
    betas, alphas = grid_angles(res_beta, res_alpha)
    shb, sha = grid_factors(lmax, res_beta, res_alpha)
    return tuple(mx.array(values, dtype=dtype) for values in (betas, alphas, shb, sha))  # pyright: ignore[reportReturnType]


def rfft(x: Float[mx.array, "*batch res"], l: int) -> Float[mx.array, "*batch components"]:
    """Fourier sums over a circle of equidistant values.

    Args:
        x: (..., res) values at the angles 2 pi i / res.
        l: largest order, 2 l + 1 <= res + 1.

    Returns:
        (..., 2l+1): sqrt(2) sum x sin(m a) for m = l..1, sum x, sqrt(2) sum x cos(m a).

    Raises:
        ValueError: ``l`` is larger than res / 2.
    """
    res = x.shape[-1]
    if l > res // 2:
        raise ValueError(f"order {l} needs at least {2 * l} values, but x has {res}")
    return x @ circle_functions(l, res, x.dtype)


def irfft(x: Float[mx.array, "*batch components"], res: int) -> Float[mx.array, "*batch res"]:
    """Values of a Fourier series on a circle; rfft(irfft(x, res), l) = res x.

    Args:
        x: (..., 2l+1) coefficients, see rfft.
        res: number of angles, at least 2l + 1.

    Returns:
        (..., res).

    Raises:
        ValueError: an even number of coefficients, or too few angles.
    """
    l, rest = divmod(x.shape[-1] - 1, 2)
    if rest or res < 2 * l + 1:
        raise ValueError(
            f"x has {x.shape[-1]} coefficients and res is {res}; "
            "their number must be 2l + 1, and res at least that"
        )
    return x @ circle_functions(l, res, x.dtype).T


def circle_functions(l: int, res: int, dtype: mx.Dtype) -> Float[mx.array, "res components"]:
    """(res, 2l+1) values of sqrt(2) sin(m a), 1, sqrt(2) cos(m a) at the angles 2 pi i / res."""
    alphas = 2.0 * pi * np.arange(res) / res
    m = np.arange(1, l + 1)
    sines = sqrt(2.0) * np.sin(alphas[:, None] * m)
    cosines = sqrt(2.0) * np.cos(alphas[:, None] * m)
    return mx.array(
        np.concatenate([sines[:, ::-1], np.ones((res, 1)), cosines], axis=1), dtype=dtype
    )


def grid_angles(res_beta: int, res_alpha: int) -> tuple[np.ndarray, np.ndarray]:
    """Angles of s2_grid, float64."""
    betas = (np.arange(res_beta) + 0.5) * (pi / res_beta)
    return betas, np.arange(res_alpha) * (2.0 * pi / res_alpha)


def grid_factors(lmax: int, res_beta: int, res_alpha: int) -> tuple[np.ndarray, np.ndarray]:
    """The two factors of spherical_harmonics_s2_grid, float64."""
    betas, alphas = grid_angles(res_beta, res_alpha)
    with mx.stream(mx.cpu):  # pyright: ignore[reportArgumentType]
        z, y, a = (mx.array(v, dtype=mx.float64) for v in (np.cos(betas), np.sin(betas), alphas))
        shb = np.array(Legendre(range(lmax + 1))(z, y))
        sha = np.array(spherical_harmonics_alpha(lmax, a))
    return shb, sha


def quadrature_weights(n: int) -> np.ndarray:
    """Weights of the 2n values of beta of s2_grid; their sum is 2.

    The sum of w_k f(beta_k) is the integral of f(beta) sin(beta) for trigonometric polynomials of
    degree below 2n (Kostelec and Rockmore 2008, eq. 2.11).
    """
    k = np.arange(2 * n)
    odd = 2 * np.arange(n) + 1
    series = np.sin(np.outer(2 * k + 1, odd) * pi / (4 * n)) / odd
    return 2.0 / n * np.sin(pi * (2 * k + 1) / (4 * n)) * series.sum(axis=1)


def complete_resolution(
    lmax: int | None, res: int | tuple[int | None, int | None] | None
) -> tuple[int, int, int]:
    """Largest degree and resolutions (lmax, res_beta, res_alpha) from those that are given.

    Raises:
        ValueError: nothing is given, res_beta is odd, or it is too small for lmax.
    """
    res_beta, res_alpha = (res, None) if isinstance(res, int) or res is None else res
    if lmax is None and res_beta is None and res_alpha is None:
        raise ValueError("neither lmax nor a resolution is given; give at least one of them")
    if res_beta is None:
        res_beta = 2 * (lmax + 1) if lmax is not None else 2 * (((res_alpha or 0) + 1) // 2)
    if res_alpha is None:
        res_alpha = res_beta - 1 if lmax is None else max(2 * lmax + 1, res_beta - 1)
    if lmax is None:
        lmax = min(res_beta // 2 - 1, (res_alpha - 1) // 2)
    if res_beta % 2:
        raise ValueError(f"res_beta is {res_beta}; it must be even, as {res_beta + 1} is")
    if lmax + 1 > res_beta // 2:
        raise ValueError(
            f"lmax={lmax} needs a res_beta of at least {2 * (lmax + 1)}, but it is {res_beta}"
        )
    return lmax, res_beta, res_alpha
