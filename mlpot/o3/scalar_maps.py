"""Which linear layers and products with scalars are one map between blocks, for its kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mlpot.kernels import LinearPath, LinearSpec

from .irreps import Irreps
from .layout import Layout
from .linear_paths import LinearInstruction
from .tensor_product_instructions import Instruction


def component_major(irreps: Irreps, layout: Layout) -> bool:
    """Whether element (k, channel) of each block lies at k * mul + channel."""
    return layout == "ir_mul" or all(b.ir.l == 0 or b.mul == 1 for b in irreps)


def linear_map(
    irreps_in: Irreps,
    irreps_out: Irreps,
    instructions: Sequence[LinearInstruction],
    layout: Layout,
) -> LinearSpec | None:
    """The map of a linear layer; None where it is not one.

    Args:
        irreps_in: input.
        irreps_out: output.
        instructions: without those of biases.
        layout: of both.
    """
    if not (component_major(irreps_in, layout) and component_major(irreps_out, layout)):
        return None
    x_starts, out_starts = _starts(irreps_in), _starts(irreps_out)
    paths, at = [], 0
    for ins in instructions:
        mul_in, mul_out = irreps_in[ins.i_in].mul, irreps_out[ins.i_out].mul
        paths.append(
            LinearPath(
                x_offset=x_starts[ins.i_in],
                mul_in=mul_in,
                y_offset=0,
                n_y=1,
                w_offset=at,
                out_offset=out_starts[ins.i_out],
                mul_out=mul_out,
                d=irreps_in[ins.i_in].ir.dim,
                factor=ins.path_weight,
            )
        )
        at += mul_in * mul_out
    return _spec(irreps_in.dim, 0, at, irreps_out.dim, paths)


def product_with_scalars(
    irreps1: Irreps,
    irreps2: Irreps,
    irreps_out: Irreps,
    instructions: Sequence[Instruction],
    layout: Layout,
) -> LinearSpec | None:
    """The map of a tensor product whose second input has scalars only; None where it is not one.

    Args:
        irreps1: first input.
        irreps2: second input.
        irreps_out: output.
        instructions: complete.
        layout: of the first input and of the output.
    """
    if not (
        irreps2.dim > 0
        and all(b.ir.l == 0 for b in irreps2)
        and all(ins.connection_mode == "uvw" and ins.has_weight for ins in instructions)
        and component_major(irreps1, layout)
        and component_major(irreps_out, layout)
    ):
        return None
    x_starts, y_starts, out_starts = _starts(irreps1), _starts(irreps2), _starts(irreps_out)
    paths, at = [], 0
    for ins in instructions:
        block, n_y, out = irreps1[ins.i_in1], irreps2[ins.i_in2].mul, irreps_out[ins.i_out]
        paths.append(
            LinearPath(
                x_offset=x_starts[ins.i_in1],
                mul_in=block.mul,
                y_offset=y_starts[ins.i_in2],
                n_y=n_y,
                w_offset=at,
                out_offset=out_starts[ins.i_out],
                mul_out=out.mul,
                d=block.ir.dim,
                # The coupling of an irrep with a scalar is the identity over sqrt(2l + 1).
                factor=ins.path_weight / out.ir.dim**0.5,
            )
        )
        at += block.mul * n_y * out.mul
    return _spec(irreps1.dim, irreps2.dim, at, irreps_out.dim, paths)


def _starts(irreps: Irreps) -> list[int]:
    return [0, *np.cumsum([b.dim for b in irreps]).tolist()]


def _spec(
    dim_x: int, dim_y: int, n_weights: int, dim_out: int, paths: Sequence[LinearPath]
) -> LinearSpec | None:
    used = tuple(p for p in paths if p.mul_in * p.n_y * p.mul_out > 0 and p.factor != 0)
    return LinearSpec(dim_x, dim_y, n_weights, dim_out, used) if used else None
