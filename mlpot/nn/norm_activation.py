"""Activation of the length of irreps."""

from __future__ import annotations

import mlx.core as mx
import mlx.nn
import numpy as np
from jaxtyping import Float

from mlpot.o3 import Irreps
from mlpot.o3.layout import (
    Layout,
    check_layout,
    check_width,
    join_blocks,
    split_blocks,
    split_columns,
)
from mlpot.o3.norm import safe_sqrt

from .normalization_constants import Function, resolve


class NormActivation(mlx.nn.Module):
    """Scale every channel by a function of its norm, as e3nn's.

        out = f(|x| + b) x / |x|   (``normalize``; |x| at least epsilon),  else  f(|x| + b) x

    Args:
        irreps_in: input and output.
        scalar_nonlinearity: f, a function or a name.
        normalize: whether x is divided by its norm first.
        epsilon: smallest norm, 1e-8 by default; only with ``normalize``.
        bias: whether every channel has a trained bias, zero at the start.
        layout: of the features.

    Raises:
        ValueError: epsilon not positive, or given without ``normalize``.
    """

    def __init__(
        self,
        irreps_in: Irreps | str,
        scalar_nonlinearity: str | Function,
        normalize: bool = True,
        epsilon: float | None = None,
        bias: bool = False,
        layout: Layout = "mul_ir",
    ) -> None:
        super().__init__()
        if epsilon is not None and not normalize:
            raise ValueError(f"epsilon is {epsilon}, but normalize=False does not use it")
        if epsilon is not None and not epsilon > 0:
            raise ValueError(f"epsilon is {epsilon}; it must be positive")
        self.irreps_in = self.irreps_out = Irreps(irreps_in)
        self.scalar_nonlinearity = resolve(scalar_nonlinearity)
        self.normalize = normalize
        self.epsilon = (1e-8 if epsilon is None else epsilon) if normalize else None
        self.layout: Layout = check_layout(layout)
        self.bias = bias
        if bias and self.irreps_in.num_irreps > 0:
            self.biases = mx.zeros((self.irreps_in.num_irreps,))

    def __call__(self, features: Float[mx.array, "*batch dim"]) -> Float[mx.array, "*batch dim"]:
        """Scaled features.

        Args:
            features: (..., irreps_in.dim).
        """
        check_width("features", features, self.irreps_in)
        if features.size == 0:
            return features
        lead = features.shape[:-1]
        flat = features.reshape(int(np.prod(lead)), -1)
        blocks = split_blocks(flat, self.irreps_in, self.layout)
        squares = mx.concatenate([mx.sum(b * b, axis=1) for b in blocks], axis=-1)
        if self.epsilon is None:
            norms = safe_sqrt(squares)
        else:
            norms = mx.sqrt(mx.maximum(squares, self.epsilon**2))
        scale = self.scalar_nonlinearity(norms + self.biases if self.bias else norms)
        if self.normalize:
            scale = scale / norms
        scales = split_columns(scale, [b.mul for b in self.irreps_in])
        scaled = [b * s[:, None, :] for b, s in zip(blocks, scales, strict=True)]
        return join_blocks(scaled, self.layout).reshape(*lead, -1)

    def _extra_repr(self) -> str:
        return f"{self.irreps_in}"
