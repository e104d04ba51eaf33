"""Signals on the group of rotations: coefficients of Wigner matrices and grid values."""

from __future__ import annotations

from math import sqrt

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from jaxtyping import Float

from mlpot.kernels import Constant

from .arrays import check_last_axis
from .representation import wigner_D
from .s2_grid import grid_angles, quadrature_weights


class SO3Grid(nn.Module):
    """Values on a grid of rotations, and the coefficients of a signal given there.

    f(R) = n^(-1/2) sum over (l, i, j) of sqrt(2l+1) x_lij D^l_ij(R), n the number of
    coefficients, so that values have unit variance if the coefficients have. from_grid is the
    inverse of to_grid for signals up to lmax.

    Args:
        lmax: largest degree.
        resolution: half the number of values of beta, more than ``lmax`` for an exact inverse.
        normalization: ``"component"``, the only one there is.
        aspect_ratio: values of alpha and of gamma per value of beta.

    Raises:
        ValueError: another normalization.
    """

    def __init__(
        self,
        lmax: int,
        resolution: int,
        *,
        normalization: str = "component",
        aspect_ratio: int = 2,
    ) -> None:
        super().__init__()
        if normalization != "component":
            raise ValueError(f'normalization is {normalization!r}; SO3Grid has only "component"')
        self.lmax = lmax
        self.res_beta = 2 * resolution
        self.res_alpha = self.res_gamma = 2 * aspect_ratio * resolution
        self._betas, self._alphas = grid_angles(self.res_beta, self.res_alpha)
        self._weights = quadrature_weights(resolution) / (2.0 * self.res_alpha * self.res_gamma)
        functions = self._functions()
        n = functions.shape[-1]
        flat = functions.reshape(-1, n)
        weights = np.tile(np.repeat(self._weights, self.res_gamma), self.res_alpha)
        self._functions_on_grid = Constant(functions)
        self._to_grid = Constant(flat.T / sqrt(n))
        self._from_grid = Constant(flat * weights[:, None] * sqrt(n))

    def _functions(self) -> np.ndarray:
        """(res_alpha, res_beta, res_gamma, n) values of sqrt(2l+1) D^l_ij."""
        with mx.stream(mx.cpu):  # pyright: ignore[reportArgumentType]
            alpha = mx.array(self._alphas, dtype=mx.float64)
            beta = mx.array(self._betas, dtype=mx.float64)
            parts = []
            for l in range(self.lmax + 1):
                D = wigner_D(l, alpha[:, None, None], beta[:, None], alpha)
                parts.append(sqrt(2 * l + 1) * np.array(D).reshape(*D.shape[:3], -1))
        return np.concatenate(parts, axis=-1)

    @property
    def D(self) -> Float[mx.array, "res_alpha res_beta res_gamma components"]:
        """Wigner matrices times sqrt(2l+1) on the grid, float32."""
        return self._functions_on_grid(mx.float32)

    @property
    def alpha(self) -> Float[mx.array, " res_alpha"]:
        """Values of alpha, radians, float32."""
        return mx.array(self._alphas, dtype=mx.float32)

    @property
    def beta(self) -> Float[mx.array, " res_beta"]:
        """Values of beta, radians, float32."""
        return mx.array(self._betas, dtype=mx.float32)

    @property
    def gamma(self) -> Float[mx.array, " res_gamma"]:
        """Values of gamma, radians, float32."""
        return self.alpha

    @property
    def qw(self) -> Float[mx.array, " res_beta"]:
        """Weight of each point by its beta: an average over rotations, float32."""
        return mx.array(self._weights, dtype=mx.float32)

    def to_grid(
        self, features: Float[mx.array, "*batch components"]
    ) -> Float[mx.array, "*batch res_alpha res_beta res_gamma"]:
        """Values of a signal.

        Args:
            features: (..., n) coefficients, for each l all (i, j) with j fastest.

        Returns:
            (..., res_alpha, res_beta, res_gamma).

        Raises:
            ValueError: wrong last axis.
        """
        check_last_axis("features", features, self._to_grid.shape[0])
        values = features @ self._to_grid(features.dtype)
        return values.reshape(*values.shape[:-1], *self._functions_on_grid.shape[:3])

    def from_grid(
        self, features: Float[mx.array, "*batch res_alpha res_beta res_gamma"]
    ) -> Float[mx.array, "*batch components"]:
        """Coefficients of a signal.

        Args:
            features: (..., res_alpha, res_beta, res_gamma) values.

        Returns:
            (..., n).

        Raises:
            ValueError: the last axes are not the grid's.
        """
        grid = self._functions_on_grid.shape[:3]
        if features.shape[-3:] != grid:
            raise ValueError(
                f"features have the shape {tuple(features.shape)}; "
                f"the last three axes must be {grid}"
            )
        # In numbers, as MLX infers no axis of an empty batch.
        flat = features.reshape(*features.shape[:-3], grid[0] * grid[1] * grid[2])
        return flat @ self._from_grid(features.dtype)

    def _extra_repr(self) -> str:
        return f"lmax={self.lmax}, res={self.res_alpha}x{self.res_beta}x{self.res_gamma}"
