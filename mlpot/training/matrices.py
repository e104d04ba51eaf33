"""The matrices in the weights of a model."""

from __future__ import annotations

from typing import Any, NamedTuple

import mlx.nn
from mlx.utils import tree_flatten

from mlpot import o3


class Block(NamedTuple):
    """A matrix within a weight, row by row.

    Args:
        start: its first entry.
        n_rows: inputs; of a tensor product with attributes, pairs of an input and an attribute.
        n_columns: outputs.
    """

    start: int
    n_rows: int
    n_columns: int


def matrices(module: mlx.nn.Module) -> dict[str, list[Block]]:
    """The linear maps of a model: which matrices lie in which weights.

    The weight of an equivariant linear map or of a fully connected tensor product is flat, one
    matrix behind another, one for each pair of irreps that it connects.

    Args:
        module: a potential or a part of one.

    Returns:
        By the full name of the weight; weights that are no linear maps, such as biases, are left
        out.
    """
    modules: Any = dict(module.named_modules())
    found = {}
    flat: Any = tree_flatten(module.parameters())
    for name, array in flat:
        owner = modules[name.rpartition(".")[0]]
        if array.ndim == 2:
            found[name] = [Block(0, *array.shape)]
        elif name.endswith("weight") and isinstance(
            owner, o3.Linear | o3.FullyConnectedTensorProduct
        ):
            shapes = [view.shape for view in owner.weight_views()]
            found[name], start = [], 0
            for *rows, n_columns in shapes:
                n_rows = 1
                for n in rows:
                    n_rows *= n
                found[name].append(Block(start, n_rows, n_columns))
                start += n_rows * n_columns
    return found
