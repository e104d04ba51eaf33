"""The arrays of a module as one flat set of names."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import mlx.core as mx
import mlx.nn
from mlx.utils import tree_flatten


class Weights:
    """Reads and replaces parameters by their full names, such as ``network.embedding.weight``.

    Args:
        module: whose parameters; none may be added later.
    """

    def __init__(self, module: mlx.nn.Module) -> None:
        flat: Any = tree_flatten(module.parameters())
        self._places = {name: _place(module, name) for name, _ in flat}

    @property
    def names(self) -> list[str]:
        """Names of all parameters."""
        return list(self._places)

    def read(self) -> dict[str, mx.array]:
        """All parameters as they are now."""
        return {name: holder[key] for name, (holder, key) in self._places.items()}

    def write(self, arrays: Mapping[str, mx.array]) -> None:
        """Replace some parameters; nothing is checked."""
        for name, array in arrays.items():
            holder, key = self._places[name]
            holder[key] = array

    @contextlib.contextmanager
    def replaced(self, arrays: Mapping[str, mx.array]) -> Iterator[None]:
        """Other parameters within a ``with`` block, which may be traced ones."""
        own = {name: holder[key] for name, (holder, key) in self._places.items() if name in arrays}
        self.write(arrays)
        try:
            yield
        finally:
            self.write(own)


def _place(module: Any, name: str) -> tuple[Any, Any]:
    *path, last = name.split(".")
    holder = module
    for part in path:
        holder = holder[int(part)] if isinstance(holder, list | tuple) else holder[part]
    return holder, (int(last) if isinstance(holder, list) else last)
