"""Weights of e3nn's modules and models, by name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn
import numpy as np
from mlx.utils import tree_flatten, tree_unflatten


def load_e3nn_weights(
    module: mlx.nn.Module, source: str | os.PathLike[str] | Mapping[str, Any]
) -> None:
    """Take over the weights of an e3nn module of the same architecture.

    Names and orders of weights are e3nn's, so every entry of its ``state_dict()`` finds its
    place; buffers (``output_mask``, coupling coefficients) and empty weights are passed over.
    `scripts/export_e3nn.py` writes the file, with torch:

        np.savez("weights.npz", **{k: v.numpy() for k, v in module.state_dict().items()})

    Args:
        module: of mlpot.o3, mlpot.nn or mlpot.models; keeps its precision.
        source: ``.npz`` or ``.safetensors`` file, or arrays by name.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: a weight is missing, unknown, not finite or of another size.
    """
    given = source if isinstance(source, Mapping) else _read(Path(source))
    arrays = {k: np.asarray(v) for k, v in given.items() if not _is_buffer(k)}
    arrays = {k: v for k, v in arrays.items() if v.size}
    flat: Any = tree_flatten(module.parameters())
    wanted = {k: v for k, v in flat if v.size}
    if set(wanted) != set(arrays):
        missing, unknown = sorted(set(wanted) - set(arrays)), sorted(set(arrays) - set(wanted))
        raise ValueError(
            f"the weights do not fit the module: missing {missing}, unknown {unknown}; build it "
            "with the arguments that the e3nn module had"
        )
    new = []
    for name, array in arrays.items():
        if array.size != wanted[name].size:
            raise ValueError(
                f"weight {name} has the shape {array.shape}, the module needs {wanted[name].shape}"
            )
        if not np.all(np.isfinite(array)):
            raise ValueError(f"weight {name} is not finite")
        shaped = array.reshape(wanted[name].shape).astype(np.float64)
        new.append((name, mx.array(shaped, dtype=wanted[name].dtype)))
    module.update(tree_unflatten(new))


def _is_buffer(name: str) -> bool:
    last = name.rpartition(".")[2]
    return last in ("output_mask", "num_batches_tracked") or last.startswith("_")


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise FileNotFoundError(f"weight file {str(path)!r} does not exist")
    if path.suffix == ".npz":
        try:
            with np.load(path, allow_pickle=False) as file:
                return {name: file[name] for name in file.files}
        except (OSError, ValueError) as error:
            raise ValueError(f"{str(path)!r} is not a readable npz file: {error}") from error
    if path.suffix == ".safetensors":
        try:
            loaded: Any = mx.load(str(path))
        except RuntimeError as error:
            raise ValueError(f"{str(path)!r} is not a readable safetensors file") from error
        return {name: np.array(array) for name, array in loaded.items()}
    raise ValueError(f"cannot read weights from {str(path)!r}: give a .npz or .safetensors file")
