"""A linear map of features in any layout as a product with a scalar, the form that kernels take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import mlx.core as mx
import numpy as np

from mlpot.kernels import dispatch, native
from mlpot.kernels.item_product import ItemProduct
from mlpot.kernels.item_product_spec import ItemBlock, ItemPath, ItemProductSpec

from .irreps import Irreps
from .layout import Layout
from .linear_paths import LinearInstruction
from .tensor_product_items import item_blocks

#: From features (n, dim) and flat weights to the map in plain MLX.
Plain = Callable[[mx.array, mx.array], mx.array]


class LinearItems:
    """Linear maps on kernels: the product with one scalar, which is 1.

    Args:
        irreps_in: input.
        irreps_out: output.
        paths: without biases.
        layout: of both.
        shared: whether all items share the weights.
        plain: the map in plain MLX.
    """

    def __init__(
        self,
        irreps_in: Irreps,
        irreps_out: Irreps,
        paths: Sequence[LinearInstruction],
        layout: Layout,
        shared: bool,
        plain: Plain,
    ) -> None:
        self.spec = _spec(irreps_in, irreps_out, paths, layout)
        self._shared, self._plain = shared, plain
        self._product: ItemProduct | None = None

    def __getstate__(self) -> dict:
        # What is made for a process is not copied; it is made again when it is needed.
        return {**self.__dict__, "_product": None}

    def pays(self, x: mx.array, weight: mx.array) -> bool:
        """Whether a kernel takes features (n, dim) and flat weights."""

        def refusal() -> str | None:
            return self.spec.refusal(x.shape[0]) or native.refusal(x, weight)

        return dispatch.choose("linear", (("native", refusal),)) != "reference"

    def __call__(self, x: mx.array, weight: mx.array) -> mx.array:
        """The map of features (n, dim)."""
        if self._product is None:
            plain = self._plain
            self._product = ItemProduct(self.spec, lambda x, y, w: plain(x, w) * y, self._shared)
        return self._product(x, mx.ones((x.shape[0], 1), dtype=x.dtype), weight)


def _spec(
    irreps_in: Irreps, irreps_out: Irreps, instructions: Sequence[LinearInstruction], layout: Layout
) -> ItemProductSpec:
    xs, outs = item_blocks(irreps_in, layout), item_blocks(irreps_out, layout)
    one = ItemBlock(0, 1, 1, 1, 1)
    paths, offset = [], 0
    for ins in instructions:
        if 0 not in ins.path_shape:
            same = ins.path_weight * np.eye(xs[ins.i_in].dim)[:, None, :]
            blocks = xs[ins.i_in], one, outs[ins.i_out]
            paths.append(ItemPath(*blocks, "uvw", "matrix", offset, same))
        offset += prod(ins.path_shape)
    return ItemProductSpec(irreps_in.dim, 1, irreps_out.dim, offset, tuple(paths))
