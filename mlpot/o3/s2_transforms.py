"""Signals on the sphere: from coefficients of spherical harmonics to grid values and back.

Both ways are two products: one over l for each order m, and one over m. Inside, the axis of the
batch is the last one.
"""

from __future__ import annotations

from math import pi, sqrt

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from jaxtyping import Float

from mlpot.kernels import Constant, gather

from .arrays import check_last_axis
from .harmonics import check_normalization
from .s2_grid import complete_resolution, grid_angles, grid_factors, quadrature_weights


class _S2Transform(nn.Module):
    """What the two directions share: resolution, grid, and the sorting of components by order."""

    def __init__(self, lmax, res, normalization: str) -> None:
        super().__init__()
        check_normalization(normalization)
        self.lmax, self.res_beta, self.res_alpha = complete_resolution(lmax, res)
        self.normalization = normalization
        # Component (l, m) sits in row m + lmax, column l of a table of orders and degrees.
        l = np.array([l for l in range(self.lmax + 1) for _ in range(2 * l + 1)])
        m = np.array([m for l in range(self.lmax + 1) for m in range(-l, l + 1)])
        self._slots = (m + self.lmax) * (self.lmax + 1) + l
        shb, sha = grid_factors(self.lmax, self.res_beta, self.res_alpha)
        self._around = Constant(sha)
        self._along = shb

    @property
    def betas(self) -> Float[mx.array, " res_beta"]:
        """Polar angles (res_beta,), radians, float32."""
        return mx.array(grid_angles(self.res_beta, self.res_alpha)[0], dtype=mx.float32)

    @property
    def alphas(self) -> Float[mx.array, " res_alpha"]:
        """Angles around the axis y (res_alpha,), radians, float32."""
        return mx.array(grid_angles(self.res_beta, self.res_alpha)[1], dtype=mx.float32)

    @property
    def grid(self) -> Float[mx.array, "res_beta res_alpha 3"]:
        """Points of the grid on the unit sphere, (res_beta, res_alpha, 3), float32."""
        betas, alphas = grid_angles(self.res_beta, self.res_alpha)
        b, a = np.meshgrid(betas, alphas, indexing="ij")
        points = np.stack([np.sin(b) * np.sin(a), np.cos(b), np.sin(b) * np.cos(a)], axis=-1)
        return mx.array(points, dtype=mx.float32)

    def _by_order(self, factors: np.ndarray) -> np.ndarray:
        """(2 lmax + 1, lmax + 1, res_beta): harmonics along beta times factors (lmax + 1,)."""
        table = np.zeros(((2 * self.lmax + 1) * (self.lmax + 1), self.res_beta))
        table[self._slots] = self._along.T
        table = table.reshape(2 * self.lmax + 1, self.lmax + 1, self.res_beta)
        return table * factors[:, None]

    def _extra_repr(self) -> str:
        return f"lmax={self.lmax}, res={self.res_beta}x{self.res_alpha} (beta x alpha)"


class ToS2Grid(_S2Transform):
    """Values on a grid of the signal with given coefficients of spherical harmonics.

    f(beta, alpha) = sum over (l, m) of n_l x_lm Y_lm, Y integral-normalised.

    Args:
        lmax: largest degree; from ``res`` if None.
        res: res_beta, or (res_beta, res_alpha); the smallest one for ``lmax`` if None.
        normalization: ``"component"`` (values have unit variance if the coefficients have), n_l =
            sqrt(4 pi / ((2l+1) (lmax+1))); ``"norm"``, n_l = sqrt(4 pi / (lmax+1));
            ``"integral"``, n_l = 1.

    Raises:
        ValueError: unknown normalization, or a resolution that is odd along beta or too small.
    """

    def __init__(
        self,
        lmax: int | None = None,
        res: int | tuple[int | None, int | None] | None = None,
        normalization: str = "component",
    ) -> None:
        super().__init__(lmax, res, normalization)
        table = self._by_order(_signal_factors(self.lmax, normalization))
        self._table = Constant(np.swapaxes(table, 1, 2))
        # Slots without a component are multiplied with zeros; any component may fill them.
        index = np.zeros((2 * self.lmax + 1) * (self.lmax + 1), dtype=np.int32)
        index[self._slots] = np.arange((self.lmax + 1) ** 2)
        self._index = Constant(index)

    def __call__(
        self, x: Float[mx.array, "*batch components"]
    ) -> Float[mx.array, "*batch res_beta res_alpha"]:
        """Grid values (..., res_beta, res_alpha) of coefficients (..., (lmax + 1)^2).

        Raises:
            ValueError: wrong last axis.
        """
        check_last_axis("x", x, (self.lmax + 1) ** 2)
        orders, batch = 2 * self.lmax + 1, x.shape[:-1]
        rows = gather(x.reshape(-1, x.shape[-1]).T, self._index(mx.int32))
        along = self._table(x.dtype) @ rows.reshape(orders, self.lmax + 1, -1)
        values = self._around(x.dtype) @ along.reshape(orders, -1)
        values = values.reshape(self.res_alpha, self.res_beta, -1).transpose(2, 1, 0)
        return values.reshape(*batch, self.res_beta, self.res_alpha)


class FromS2Grid(_S2Transform):
    """Coefficients of spherical harmonics of a signal given on a grid.

    x_lm = 1/n_l times the integral of f Y_lm over the sphere, by a quadrature that is exact for
    signals up to lmax; the inverse of ToS2Grid.

    Args:
        res: res_beta, or (res_beta, res_alpha); the smallest one for ``lmax`` if None.
        lmax: largest degree; from ``res`` if None.
        normalization: ``"component"``, ``"norm"`` or ``"integral"``, see ToS2Grid.
        lmax_in: largest degree of the signal, which is lmax of n_l; ``lmax`` if None.

    Raises:
        ValueError: unknown normalization, or a resolution that is odd along beta or too small.
    """

    def __init__(
        self,
        res: int | tuple[int | None, int | None] | None = None,
        lmax: int | None = None,
        normalization: str = "component",
        lmax_in: int | None = None,
    ) -> None:
        super().__init__(lmax, res, normalization)
        lmax_in = self.lmax if lmax_in is None else lmax_in
        factors = np.full(self.lmax + 1, sqrt((lmax_in + 1) / (4.0 * pi)))
        if normalization == "component":
            factors = factors * np.sqrt(2.0 * np.arange(self.lmax + 1) + 1.0)
        elif normalization == "integral":
            factors = np.ones(self.lmax + 1)
        weights = quadrature_weights(self.res_beta // 2) * (2.0 * pi / self.res_alpha)
        self._table = Constant(self._by_order(factors) * weights)
        self._index = Constant(self._slots.astype(np.int32))

    def __call__(
        self, x: Float[mx.array, "*batch res_beta res_alpha"]
    ) -> Float[mx.array, "*batch components"]:
        """Coefficients (..., (lmax + 1)^2) of grid values (..., res_beta, res_alpha).

        Raises:
            ValueError: the last axes are not the grid's.
        """
        if x.ndim < 2 or x.shape[-2:] != (self.res_beta, self.res_alpha):
            raise ValueError(
                f"x has the shape {tuple(x.shape)}; its last two axes must be "
                f"{self.res_beta} and {self.res_alpha}"
            )
        orders, batch = 2 * self.lmax + 1, x.shape[:-2]
        values = x.reshape(-1, self.res_beta, self.res_alpha).transpose(2, 1, 0)
        around = self._around(x.dtype).T @ values.reshape(self.res_alpha, -1)
        rows = self._table(x.dtype) @ around.reshape(orders, self.res_beta, -1)
        components = gather(rows.reshape(orders * (self.lmax + 1), -1), self._index(mx.int32))
        return components.T.reshape(*batch, (self.lmax + 1) ** 2)


def _signal_factors(lmax: int, normalization: str) -> np.ndarray:
    """(lmax + 1,) factors n_l of ToS2Grid."""
    l = np.arange(lmax + 1)
    if normalization == "component":
        return np.sqrt(4.0 * pi / ((2 * l + 1) * (lmax + 1)))
    if normalization == "norm":
        return np.full(lmax + 1, sqrt(4.0 * pi / (lmax + 1)))
    return np.ones(lmax + 1)
