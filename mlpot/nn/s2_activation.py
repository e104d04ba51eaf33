"""Activations of functions on the sphere and on the rotation group."""

from __future__ import annotations

import mlx.core as mx
import mlx.nn
from jaxtyping import Float

from mlpot.o3 import FromS2Grid, Irreps, SO3Grid, ToS2Grid, rand_angles
from mlpot.o3.layout import check_width

from .activation import ScaledFunction
from .normalization_constants import Convention, Function


class S2Activation(mlx.nn.Module):
    """Apply a function to a signal on the sphere, as e3nn's.

        A -> coefficients of f(sum_l A^l . Y^l(x)),   x on the sphere

    Equivariant up to the resolution of the grid.

    Args:
        irreps: one channel each of l = 0..lmax, parities p_val * p_arg^l.
        act: f, a function or a name.
        res: resolution of the grid.
        normalization: of the coefficients: "component", "norm" or "integral".
        lmax_out: largest l of the output, that of the input by default.
        random_rot: turn the grid at random in every call.
        act_normalization: convention of the constant in front of f.

    Raises:
        ValueError: other irreps, or a function without parity on an odd signal.
    """

    def __init__(
        self,
        irreps: Irreps | str,
        act: str | Function,
        res: int | tuple[int | None, int | None],
        normalization: str = "component",
        lmax_out: int | None = None,
        random_rot: bool = False,
        act_normalization: Convention = "e3nn",
    ) -> None:
        super().__init__()
        self.irreps_in = Irreps(irreps).simplify()
        p_val, p_arg = _parities(self.irreps_in)
        lmax = len(self.irreps_in) - 1
        lmax_out = lmax if lmax_out is None else lmax_out
        self.act = ScaledFunction(act, act_normalization)
        if p_val == -1 and self.act.parity == 0:
            raise ValueError(
                f"the signal {self.irreps_in} is odd, but the activation is neither even nor odd; "
                "use for example tanh or abs"
            )
        p_out = self.act.parity if p_val == -1 else 1
        self.irreps_out = Irreps([(1, (l, p_out * p_arg**l)) for l in range(lmax_out + 1)])
        self.to_s2 = ToS2Grid(lmax, res, normalization=normalization)
        self.from_s2 = FromS2Grid(res, lmax_out, normalization=normalization, lmax_in=lmax)
        self.random_rot = random_rot

    def __call__(
        self, features: Float[mx.array, "*batch dim_in"]
    ) -> Float[mx.array, "*batch dim_out"]:
        """Coefficients of the activated signal.

        Args:
            features: (..., (lmax + 1)^2).

        Returns:
            (..., (lmax_out + 1)^2).
        """
        check_width("features", features, self.irreps_in)
        if not self.random_rot:
            return self.from_s2(self.act(self.to_s2(features)))
        angles = rand_angles(dtype=features.dtype)
        turned = features @ self.irreps_in.D_from_angles(*angles).T
        out = self.from_s2(self.act(self.to_s2(turned)))
        return out @ self.irreps_out.D_from_angles(*angles)

    def _extra_repr(self) -> str:
        return f"{self.irreps_in} -> {self.irreps_out}"


def _parities(irreps: Irreps) -> tuple[int, int]:
    """(p_val, p_arg) of a signal on the sphere."""
    fits = [(mul, ir.l) for mul, ir in irreps] == [(1, l) for l in range(len(irreps))]
    for p_arg in (1, -1):
        if fits and len(irreps) and all(ir.p == irreps[0].ir.p * p_arg**ir.l for _, ir in irreps):
            return irreps[0].ir.p, p_arg
    raise ValueError(
        f"{irreps} is no signal on the sphere; give one channel each of l = 0..lmax with parities "
        'that are equal or alternate, such as "0e+1o+2e"'
    )


class SO3Activation(mlx.nn.Module):
    """Apply a function to a signal on the rotation group, as e3nn's.

    Args:
        lmax_in: largest degree of the input.
        lmax_out: largest degree of the output.
        act: a function or a name.
        resolution: of the grid.
        normalization: of the coefficients.
        aspect_ratio: number of values of alpha and gamma over that of beta.
        act_normalization: convention of the constant in front of the function.
    """

    def __init__(
        self,
        lmax_in: int,
        lmax_out: int,
        act: str | Function,
        resolution: int,
        *,
        normalization: str = "component",
        aspect_ratio: int = 2,
        act_normalization: Convention = "e3nn",
    ) -> None:
        super().__init__()
        self.lmax_in, self.lmax_out = lmax_in, lmax_out
        self.act = ScaledFunction(act, act_normalization)
        grids = {"normalization": normalization, "aspect_ratio": aspect_ratio}
        self.grid_in = SO3Grid(lmax_in, resolution, **grids)
        self.grid_out = SO3Grid(lmax_out, resolution, **grids)

    def __call__(
        self, features: Float[mx.array, "*batch dim_in"]
    ) -> Float[mx.array, "*batch dim_out"]:
        """Coefficients of the activated signal.

        Args:
            features: (..., sum over l <= lmax_in of (2l+1)^2).

        Returns:
            (..., sum over l <= lmax_out of (2l+1)^2).
        """
        return self.grid_out.from_grid(self.act(self.grid_in.to_grid(features)))

    def _extra_repr(self) -> str:
        return f"{self.lmax_in} -> {self.lmax_out}"
