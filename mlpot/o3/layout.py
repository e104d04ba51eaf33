"""The two memory layouts of node features, block by block.

``mul_ir``: every block of irreps is (mul, 2l+1), as in e3nn. ``ir_mul``: (2l+1, mul),
"component-major", which turns linear maps of channels into matrix products without transposes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import mlx.core as mx
from jaxtyping import Float

from mlpot.kernels.splitting import split

from .irreps import Irreps

Layout = Literal["mul_ir", "ir_mul"]


def check_layout(layout: str) -> Layout:
    """The layout itself if it is one of the two.

    Raises:
        ValueError: unknown layout.
    """
    if layout not in ("mul_ir", "ir_mul"):
        raise ValueError(f'layout is {layout!r}; choose "mul_ir" (as e3nn) or "ir_mul"')
    return layout  # pyright: ignore[reportReturnType]


def split_columns(x: mx.array, widths: Sequence[int], axis: int = -1) -> list[mx.array]:
    """Consecutive pieces of the given widths along an axis; empty pieces are allowed."""
    axis = axis % x.ndim
    wanted = [w for w in widths if w > 0]
    pieces = iter(split(x, wanted, axis) if wanted else [])

    def empty() -> mx.array:
        shape = list(x.shape)
        shape[axis] = 0
        return mx.zeros(shape, dtype=x.dtype)

    return [next(pieces) if w > 0 else empty() for w in widths]


def split_blocks(
    x: Float[mx.array, "n dim"], irreps: Irreps, layout: Layout
) -> list[Float[mx.array, "n _ _"]]:
    """Blocks of features, each (n, 2l+1, mul), whatever the layout."""
    blocks = []
    for (mul, ir), piece in zip(irreps, split_columns(x, [b.dim for b in irreps]), strict=True):
        if layout == "ir_mul" or ir.dim == 1 or mul == 1:
            blocks.append(piece.reshape(x.shape[0], ir.dim, mul))
        else:
            blocks.append(piece.reshape(x.shape[0], mul, ir.dim).swapaxes(1, 2))
    return blocks


def join_blocks(
    blocks: Sequence[Float[mx.array, "n _ _"]], layout: Layout
) -> Float[mx.array, "n dim"]:
    """Features in the layout wanted from (n, 2l+1, mul) blocks (at least one)."""
    flat = []
    for block in blocks:
        n, components, mul = block.shape
        if layout == "mul_ir" and components > 1 and mul > 1:
            block = block.swapaxes(1, 2)
        if components * mul > 0:
            flat.append(block.reshape(n, components * mul))
    if not flat:
        return mx.zeros((blocks[0].shape[0], 0), dtype=blocks[0].dtype)
    return flat[0] if len(flat) == 1 else mx.concatenate(flat, axis=1)


def convert_layout(
    x: Float[mx.array, "*batch dim"], irreps: Irreps | str, source: Layout, target: Layout
) -> Float[mx.array, "*batch dim"]:
    """Features in another layout.

    Args:
        x: (..., irreps.dim).
        irreps: what the columns are.
        source: layout of ``x``.
        target: layout of the result.

    Returns:
        (..., irreps.dim).

    Raises:
        ValueError: unknown layout, or the last axis is not irreps.dim.
    """
    irreps = Irreps(irreps)
    check_width("x", x, irreps)
    if check_layout(source) == check_layout(target) or x.size == 0:
        return x
    lead = x.shape[:-1]
    blocks = split_blocks(x.reshape(x.size // irreps.dim, irreps.dim), irreps, source)
    return join_blocks(blocks, target).reshape(*lead, irreps.dim)


def regrouped(irreps: Irreps | str, blocks: Irreps, layout: str) -> Irreps:
    """``blocks``, for operations that cut or merge the blocks of ``irreps`` as e3nn's do.

    Raises:
        ValueError: in ir_mul the columns of other blocks are in another order.
    """
    given = Irreps(irreps).remove_zero_multiplicities()
    if layout == "ir_mul" and blocks != given:
        raise ValueError(
            f"the operation handles {irreps} as {blocks}, and in ir_mul the columns of the two are "
            f'in different orders: give "{blocks}" and features that are laid out so'
        )
    return blocks


def check_width(name: str, x: mx.array, irreps: Irreps) -> None:
    """Raises ValueError unless the last axis of ``x`` is irreps.dim."""
    if x.ndim == 0 or x.shape[-1] != irreps.dim:
        raise ValueError(
            f"{name} has the shape {tuple(x.shape)}; its last axis must be {irreps.dim}, "
            f"the dimension of {irreps}"
        )
