"""Dropout of whole channels."""

from __future__ import annotations

import mlx.core as mx
import mlx.nn
import numpy as np
from jaxtyping import Float

from mlpot.o3 import Irreps
from mlpot.o3.layout import Layout, check_layout, check_width, join_blocks, split_blocks


class Dropout(mlx.nn.Module):
    """Set channels to zero at random while training, all components at once.

    Args:
        irreps: input and output.
        p: probability of a channel to be dropped; the others are divided by 1 - p.
        layout: of the features.

    Raises:
        ValueError: p is not between 0 and 1.
    """

    def __init__(self, irreps: Irreps | str, p: float, layout: Layout = "mul_ir") -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"p is {p}; it is a probability, between 0 and 1")
        self.irreps = Irreps(irreps)
        self.p = p
        self.layout: Layout = check_layout(layout)

    def __call__(self, x: Float[mx.array, "*batch dim"]) -> Float[mx.array, "*batch dim"]:
        """Features with channels dropped; unchanged in evaluation mode."""
        check_width("x", x, self.irreps)
        if not self.training or self.p == 0 or x.size == 0:
            return x
        if self.p == 1:
            return mx.zeros_like(x)
        n = int(np.prod(x.shape[:-1]))
        blocks = []
        for block in split_blocks(x.reshape(n, -1), self.irreps, self.layout):
            keep = mx.random.bernoulli(1 - self.p, (n, 1, block.shape[-1]))
            blocks.append(mx.where(keep, block * (1 / (1 - self.p)), mx.zeros_like(block)))
        return join_blocks(blocks, self.layout).reshape(x.shape)

    def _extra_repr(self) -> str:
        return f"{self.irreps}, p={self.p}"
