"""Low-rank adapters: small trained changes of the linear maps of a model that stays fixed.

Every matrix W (n, m) of a linear map becomes W + A B with A (n, r) and B (r, m), of which only A
and B are trained: E. Hu et al., "LoRA: Low-rank adaptation of large language models",
arXiv:2106.09685. An equivariant linear map has one matrix for each pair of irreps that it connects,
and each of these gets its own pair, so what is added is equivariant as well. B starts with zeros:
the model begins as it was. The model that is saved has the sums, and is an ordinary one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import mlx.core as mx

from mlpot.kernels.splitting import split

from .matrices import Block

Arrays = dict[str, mx.array]


class Adapters:
    """The adapters of some weights.

    Args:
        blocks: matrices in each weight, by its name.
        rank: r; no more than the smaller side of a matrix.
    """

    def __init__(self, blocks: Mapping[str, Sequence[Block]], rank: int) -> None:
        self.blocks = {name: list(parts) for name, parts in blocks.items()}
        self.rank = rank

    def start(self, weights: Mapping[str, mx.array]) -> Arrays:
        """A random and B zero: ``NAME.a`` and ``NAME.b``, flat, matrix behind matrix.

        Args:
            weights: of the model, by name.
        """
        found: Arrays = {}
        for name, parts in self.blocks.items():
            dtype = weights[name].dtype
            pieces = [
                mx.random.normal((b.n_rows * self._rank(b),)) / self._rank(b) ** 0.5 for b in parts
            ]
            found[f"{name}.a"] = mx.concatenate(pieces).astype(dtype)
            size = sum(self._rank(b) * b.n_columns for b in parts)
            found[f"{name}.b"] = mx.zeros((size,), dtype=dtype)
        return found

    def merged(self, weights: Mapping[str, mx.array], arrays: Mapping[str, mx.array]) -> Arrays:
        """The weights with what the adapters add, lazily.

        Args:
            weights: of the model, by name.
            arrays: as `start` makes them.
        """
        merged = {}
        for name, parts in self.blocks.items():
            first = split(arrays[f"{name}.a"], [b.n_rows * self._rank(b) for b in parts])
            second = split(arrays[f"{name}.b"], [self._rank(b) * b.n_columns for b in parts])
            products = [
                (a.reshape(block.n_rows, -1) @ b.reshape(-1, block.n_columns)).reshape(-1)
                for block, a, b in zip(parts, first, second, strict=True)
            ]
            change = products[0] if len(products) == 1 else mx.concatenate(products)
            merged[name] = weights[name] + change.reshape(weights[name].shape)
        return merged

    def _rank(self, block: Block) -> int:
        return min(self.rank, block.n_rows, block.n_columns)
