"""Batch normalisation that keeps equivariance."""

from __future__ import annotations

from typing import Literal

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


class BatchNorm(mlx.nn.Module):
    """Batch normalisation of irreps, as e3nn's.

    0e channels are centred; every channel is divided by the root of its mean square norm (over
    batch, samples and components), then scaled, and 0e channels shifted. Running statistics are
    kept for evaluation.

    Args:
        irreps: input and output.
        eps: added to the mean square.
        momentum: weight of the new batch in the running statistics.
        affine: trained ``weight`` (one per channel) and ``bias`` (one per 0e channel).
        reduce: over the samples of one item: "mean" or "max".
        instance: statistics of every item by itself; no running statistics.
        include_bias: whether 0e channels have a bias.
        normalization: "component" (mean square) or "norm" (square of the norm).
        layout: of the features.

    Raises:
        ValueError: unknown ``reduce`` or ``normalization``.
    """

    def __init__(
        self,
        irreps: Irreps | str,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        reduce: Literal["mean", "max"] = "mean",
        instance: bool = False,
        include_bias: bool = True,
        normalization: Literal["component", "norm"] = "component",
        layout: Layout = "mul_ir",
    ) -> None:
        super().__init__()
        if reduce not in ("mean", "max"):
            raise ValueError(f'reduce is {reduce!r}; choose "mean" or "max"')
        if normalization not in ("component", "norm"):
            raise ValueError(f'normalization is {normalization!r}; choose "component" or "norm"')
        self.irreps = Irreps(irreps)
        self.eps, self.momentum, self.affine = eps, momentum, affine
        self.reduce, self.instance, self.include_bias = reduce, instance, include_bias
        self.normalization = normalization
        self.layout: Layout = check_layout(layout)
        self._centred = tuple(ir.l == 0 and ir.p == 1 for _, ir in self.irreps)
        n_channels = self.irreps.num_irreps
        n_scalars = sum(b.mul for b, c in zip(self.irreps, self._centred, strict=True) if c)
        self._has_bias = affine and include_bias and n_scalars > 0
        if affine:
            self.weight = mx.ones((n_channels,))
        if self._has_bias:
            self.bias = mx.zeros((n_scalars,))
        if not instance:
            self.running_mean = mx.zeros((n_scalars,))
            self.running_var = mx.ones((n_channels,))
            self.freeze(keys=["running_mean", "running_var"], recurse=False)

    def unfreeze(self, *args, **kwargs):
        """As in ``mlx.nn.Module``; running statistics are never trained."""
        super().unfreeze(*args, **kwargs)
        if not self.instance:
            self.freeze(keys=["running_mean", "running_var"], recurse=False)
        return self

    def __call__(self, x: Float[mx.array, "*batch dim"]) -> Float[mx.array, "*batch dim"]:
        """Normalised features.

        Args:
            x: (n_items, ..., irreps.dim); the axes between are samples of one item.
        """
        check_width("x", x, self.irreps)
        if x.ndim < 2:
            raise ValueError(f"x has the shape {tuple(x.shape)}; give (n_items, ..., dim)")
        if x.size == 0:
            return x
        n, samples = x.shape[0], int(np.prod(x.shape[1:-1]))
        blocks = split_blocks(x.reshape(n * samples, self.irreps.dim), self.irreps, self.layout)
        blocks = [b.reshape(n, samples, *b.shape[1:]) for b in blocks]
        blocks, means = self._centre(blocks)
        squares = [self._mean_square(b) for b in blocks]
        joined = mx.concatenate(squares, axis=-1)
        if not self.instance:
            if self.training:
                self._update(means, joined)
            else:
                joined = self.running_var
        scale = mx.rsqrt(joined + self.eps)
        if self.affine:
            scale = scale * self.weight
        scales = split_columns(scale, [b.mul for b in self.irreps])
        out = [
            block * s.reshape(n if self.instance else 1, 1, 1, s.shape[-1])
            for block, s in zip(blocks, scales, strict=True)
        ]
        if self._has_bias:
            out = self._shift(out)
        flat = join_blocks([b.reshape(n * samples, *b.shape[2:]) for b in out], self.layout)
        return flat.reshape(x.shape)

    def _centre(self, blocks: list[mx.array]) -> tuple[list[mx.array], list[mx.array]]:
        """(n, samples, 1, mul) blocks of 0e minus their mean, and the means."""
        if self.instance or self.training:
            axes = (1,) if self.instance else (0, 1)
            means = [
                b.mean(axis=axes, keepdims=True)
                for b, centred in zip(blocks, self._centred, strict=True)
                if centred
            ]
        else:
            widths = [b.mul for b, c in zip(self.irreps, self._centred, strict=True) if c]
            means = [m[None, None, None] for m in split_columns(self.running_mean, widths)]
        left = iter(means)
        centred = [
            block - next(left) if c else block
            for block, c in zip(blocks, self._centred, strict=True)
        ]
        return centred, means

    def _mean_square(self, block: mx.array) -> mx.array:
        """(mul,), or (n, mul) for ``instance``."""
        square = block * block
        square = square.sum(axis=2) if self.normalization == "norm" else square.mean(axis=2)
        square = square.mean(axis=1) if self.reduce == "mean" else _largest(square)
        return square if self.instance else square.mean(axis=0)

    def _update(self, means: list[mx.array], squares: mx.array) -> None:
        keep, new = 1.0 - self.momentum, self.momentum
        if means:
            mean = mx.concatenate([m.flatten() for m in means])
            self.running_mean = keep * self.running_mean + new * mx.stop_gradient(mean)
        self.running_var = keep * self.running_var + new * mx.stop_gradient(squares)

    def _shift(self, blocks: list[mx.array]) -> list[mx.array]:
        widths = [b.mul for b, c in zip(self.irreps, self._centred, strict=True) if c]
        shifts = iter(split_columns(self.bias, widths))
        return [b + next(shifts) if c else b for b, c in zip(blocks, self._centred, strict=True)]

    def _extra_repr(self) -> str:
        return f"{self.irreps}, eps={self.eps}, momentum={self.momentum}"


def _largest(x: mx.array) -> mx.array:
    """Maximum over the second axis with derivatives of any order (``mx.max`` has the first)."""
    held = mx.stop_gradient(x)
    chosen = held == held.max(axis=1, keepdims=True)
    share = chosen.astype(x.dtype)
    return (x * share).sum(axis=1) / share.sum(axis=1)
