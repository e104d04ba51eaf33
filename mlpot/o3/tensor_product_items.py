"""A tensor product as a product of items, the form that kernels take."""

from __future__ import annotations

from math import prod

import mlx.core as mx

from mlpot.kernels.item_product import ItemProduct
from mlpot.kernels.item_product_spec import ItemBlock, ItemPath, ItemProductSpec

from .irreps import Irreps
from .layout import Layout
from .tensor_product_plan import Plan, weight_pieces
from .wigner3j import wigner_3j_numpy


def item_blocks(irreps: Irreps, layout: Layout) -> list[ItemBlock]:
    """Where the blocks of features lie."""
    blocks, offset = [], 0
    for block in irreps:
        mul, dim = block.mul, block.ir.dim
        stride, step = (mul, 1) if layout == "ir_mul" else (1, dim)
        blocks.append(ItemBlock(offset, dim, mul, stride, step))
        offset += mul * dim
    return blocks


def item_product_spec(plan: Plan, layout: Layout) -> ItemProductSpec:
    """The product in terms of blocks, channels and couplings.

    Args:
        plan: with its instructions.
        layout: of the first input and of the output; the second is mul_ir.
    """
    xs, ys = item_blocks(plan.irreps1, layout), item_blocks(plan.irreps2, "mul_ir")
    outs = item_blocks(plan.irreps_out, layout)
    paths, offset = [], 0
    active = set(plan.active)
    for k, ins in enumerate(plan.instructions):
        if k in active:
            blocks = xs[ins.i_in1], ys[ins.i_in2], outs[ins.i_out]
            a, b, c = plan.irreps1[ins.i_in1], plan.irreps2[ins.i_in2], plan.irreps_out[ins.i_out]
            coefficients = ins.path_weight * wigner_3j_numpy(a.ir.l, b.ir.l, c.ir.l)
            mode, weighting = ins.connection_mode, "none"
            if ins.has_weight:
                weighting = "matrix" if mode in ("uvw", "uuw", "u<vw") else "channel"
            paths.append(
                ItemPath(*blocks, mode, weighting, offset if ins.has_weight else 0, coefficients)
            )
        if ins.has_weight:
            offset += prod(ins.path_shape)
    dims = plan.irreps1.dim, plan.irreps2.dim, plan.irreps_out.dim
    weighted = any(path.weighting != "none" for path in paths)
    return ItemProductSpec(*dims, offset if weighted else 0, tuple(paths))


class Items:
    """Computes a planned product, by kernels or in plain MLX.

    Paths with weights and paths without are two products: each is linear in all its arguments.

    Args:
        plan: the product.
        shared: whether the weights have no batch axis.
        layout: of the first input and of the output.
    """

    def __init__(self, plan: Plan, shared: bool, layout: Layout) -> None:
        self._whole = _Part(plan, shared, layout)
        self._parts = [self._whole]
        weighted = {plan.instructions[k].has_weight for k in plan.active}
        if len(weighted) > 1:
            irreps = plan.irreps1, plan.irreps2, plan.irreps_out
            self._parts = [
                _Part(
                    Plan(*irreps, [i for i in plan.instructions if i.has_weight == with_weights]),
                    shared,
                    layout,
                )
                for with_weights in (True, False)
            ]

    def __call__(
        self,
        x: mx.array,
        y: mx.array | None,
        weight: mx.array | None,
        use_custom_kernel: bool | None,
    ) -> mx.array:
        """The product.

        Args:
            x: (n, dim1).
            y: (n, dim2); None for ones, where the plan is linear in them.
            weight: flat weights, (weight_numel,) or (n, weight_numel); None if there are none.
            use_custom_kernel: as in `TensorProduct`.

        Returns:
            (n, dim_out).
        """
        if y is None:
            return self._whole.plain(x, y, weight)
        results = []
        for part in self._parts:
            product = part.product(use_custom_kernel)
            if part.weighted:
                assert weight is not None
                results.append(product(x, y, weight))
            else:
                results.append(product(x, y))
        return sum(results[1:], results[0])


class _Part:
    """A product whose paths have weights all, or none of them."""

    def __init__(self, plan: Plan, shared: bool, layout: Layout) -> None:
        self.plan, self.shared = plan, shared
        self.layout: Layout = layout
        self.weighted = any(plan.instructions[k].has_weight for k in plan.active)
        self._products: dict[bool | None, ItemProduct] = {}

    def __getstate__(self) -> dict:
        # What is made for a process is not copied; it is made again when it is needed.
        return {**self.__dict__, "_products": {}}

    def product(self, use_custom_kernel: bool | None) -> ItemProduct:
        if use_custom_kernel not in self._products:
            spec = item_product_spec(self.plan, self.layout)
            self._products[use_custom_kernel] = ItemProduct(
                spec, self.plain, self.shared, use_custom_kernel
            )
        return self._products[use_custom_kernel]

    def plain(self, x: mx.array, y: mx.array | None, weight: mx.array | None = None) -> mx.array:
        pieces = weight_pieces(self.plan.instructions, weight)
        return self.plan(x, y, pieces, self.shared, self.layout)
