"""The tensor product of features with themselves."""

from __future__ import annotations

from collections.abc import Iterable

import mlx.core as mx
from jaxtyping import Float

from .irrep import Irrep
from .irreps import Irreps
from .layout import Layout, convert_layout, regrouped
from .tensor_product import TensorProduct
from .tensor_product_sub import irrep_filter, sort_outputs


class TensorSquare(TensorProduct):
    """The product of features with themselves, each pair once.

    Without ``irreps_out`` all products are the output, without weights (modes uvu<v, uuu and
    uvuv), sorted by irrep; with it every path is weighted (u<vw, uuw and uvw). A channel's
    square has its own normalisation: for independent standard normal components E[x_i x_j x_k
    x_l] has three terms, so A = 1/(2l+3) for the scalar and (2 l_out + 1)/2 else; on the unit
    sphere (``norm``) 2l+1 and (2l+1)(2l+3)/2.

    Args:
        irreps_in: input.
        irreps_out: output of the weighted form.
        filter_ir_out: irreps to keep in the other; all by default.
        irrep_normalization: "component" (default), "norm" or "none".
        layout: of the input and of the output.
        **kwargs: passed on to ``TensorProduct``.

    Raises:
        ValueError: both ``irreps_out`` and ``filter_ir_out``, or an unknown normalisation.
    """

    def __init__(
        self,
        irreps_in: Irreps | str,
        irreps_out: Irreps | str | None = None,
        filter_ir_out: Iterable[Irrep | str] | None = None,
        irrep_normalization: str | None = None,
        layout: Layout = "mul_ir",
        **kwargs,
    ) -> None:
        normalization = irrep_normalization or "component"
        if normalization not in ("component", "norm", "none"):
            raise ValueError(
                f'irrep_normalization is {normalization!r}; choose "component", "norm" or "none"'
            )
        if irreps_out is not None and filter_ir_out is not None:
            raise ValueError("give irreps_out or filter_ir_out, not both")
        irreps = regrouped(irreps_in, Irreps(irreps_in).simplify(), layout)
        if irreps_out is None:
            out, instructions = _square_paths(irreps, irrep_filter(filter_ir_out), normalization)
        else:
            out = Irreps(irreps_out).simplify()
            instructions = _weighted_square_paths(irreps, out, normalization)
        super().__init__(
            irreps,
            irreps,
            out,
            instructions,
            irrep_normalization="none",
            layout=layout,
            **kwargs,
        )
        self.irreps_in = irreps

    def __call__(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        x: Float[mx.array, "*batch dim_in"],
        weight: Float[mx.array, "... weight_numel"] | None = None,
    ) -> Float[mx.array, "*batch dim_out"]:
        """The product of ``x`` with itself."""
        y = convert_layout(x, self.irreps_in, self.layout, "mul_ir")
        return super().__call__(x, y, weight)


def _pair_factor(a: Irrep, b: Irrep, out: Irrep, normalization: str) -> float:
    """A of two different channels."""
    return {"component": out.dim, "norm": a.dim * b.dim, "none": 1}[normalization]


def _own_factor(ir: Irrep, out: Irrep, normalization: str) -> float:
    """A of the square of one channel."""
    if normalization == "none":
        return 1.0
    d = ir.dim
    if normalization == "component":
        return 1 / (d + 2) if out.l == 0 else out.dim / 2
    return d if out.l == 0 else d * (d + 2) / 2


def _square_paths(irreps: Irreps, keep: set[Irrep] | None, normalization: str) -> tuple:
    """Output and instructions of the form without weights."""
    out, instructions = [], []

    def add(i: int, j: int, mul: int, ir: Irrep, mode: str, factor: float) -> None:
        instructions.append((i, j, len(out), mode, False, factor))
        out.append((mul, ir))

    for i, a in enumerate(irreps):
        for j in range(i, len(irreps)):
            b = irreps[j]
            for ir in a.ir * b.ir:
                if keep is not None and ir not in keep:
                    continue
                pair = _pair_factor(a.ir, b.ir, ir, normalization)
                if i != j:
                    add(i, j, a.mul * b.mul, ir, "uvuv", pair)
                    continue
                if a.mul > 1:
                    add(i, i, a.mul * (a.mul - 1) // 2, ir, "uvu<v", pair)
                if ir.l % 2 == 0:
                    # The coupling to an odd degree is antisymmetric: its square is zero.
                    add(i, i, a.mul, ir, "uuu", _own_factor(a.ir, ir, normalization))
    return sort_outputs(out, instructions)


def _weighted_square_paths(irreps: Irreps, out: Irreps, normalization: str) -> list[tuple]:
    """Instructions of the form with weights."""
    instructions = []
    for i, a in enumerate(irreps):
        for j in range(i, len(irreps)):
            b = irreps[j]
            for io, c in enumerate(out):
                if c.ir not in a.ir * b.ir:
                    continue
                pair = _pair_factor(a.ir, b.ir, c.ir, normalization)
                if i != j:
                    instructions.append((i, j, io, "uvw", True, pair))
                    continue
                if a.mul > 1:
                    instructions.append((i, i, io, "u<vw", True, pair))
                if c.ir.l % 2 == 0:
                    own = _own_factor(a.ir, c.ir, normalization)
                    instructions.append((i, i, io, "uuw", True, own))
    return instructions
