"""Lengths of irreps."""

from __future__ import annotations

import mlx.core as mx
import mlx.nn
import numpy as np
from jaxtyping import Float

from .irreps import Irreps
from .layout import Layout, check_layout, check_width, regrouped, split_blocks


class Norm(mlx.nn.Module):
    """Euclidean norm of every channel, as e3nn's.

    The derivatives are finite everywhere: for a zero vector the norm is 0 and counts as
    constant.

    Args:
        irreps_in: input.
        squared: give the squares instead.
        layout: of the features that go in.
    """

    def __init__(
        self, irreps_in: Irreps | str, squared: bool = False, layout: Layout = "mul_ir"
    ) -> None:
        super().__init__()
        self.irreps_in = regrouped(irreps_in, Irreps(irreps_in).simplify(), layout)
        self.irreps_out = Irreps([(mul, (0, 1)) for mul, _ in self.irreps_in]).simplify()
        self.squared = squared
        self.layout: Layout = check_layout(layout)

    def __call__(self, features: Float[mx.array, "*batch dim"]) -> Float[mx.array, "*batch mul"]:
        """Norms.

        Args:
            features: (..., irreps_in.dim).

        Returns:
            (..., irreps_in.num_irreps), channels in the order of the blocks.
        """
        check_width("features", features, self.irreps_in)
        lead = features.shape[:-1]
        n = int(np.prod(lead))
        if n == 0 or self.irreps_in.dim == 0:
            return mx.zeros((*lead, self.irreps_in.num_irreps), dtype=features.dtype)
        blocks = split_blocks(features.reshape(n, -1), self.irreps_in, self.layout)
        squares = mx.concatenate([mx.sum(b * b, axis=1) for b in blocks], axis=-1)
        result = squares if self.squared else safe_sqrt(squares)
        return result.reshape(*lead, -1)

    def _extra_repr(self) -> str:
        return f"{self.irreps_in} -> {self.irreps_out}"


def safe_sqrt(squares: Float[mx.array, "*shape"]) -> Float[mx.array, "*shape"]:
    """Square root whose derivatives at 0 are 0."""
    # A root behind `where` still gives NaN: its argument is replaced too.
    positive = squares > 0
    root = mx.sqrt(mx.where(positive, squares, mx.ones_like(squares)))
    return mx.where(positive, root, mx.zeros_like(root))
