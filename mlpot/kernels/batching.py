"""A function applied to each item of a batch, also where GPU kernels compute its values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlx.core as mx

from . import gpu


def each(function: Callable) -> Callable:
    """The function for a batch of items along the first axis; results are stacked.

    On CPUs this is ``mx.vmap``. Generated GPU kernels know no batch, so on GPUs the items are put
    into one graph one after the other.

    Args:
        function: of one array, giving an array or a tuple of arrays.

    Returns:
        A function of one array with a leading batch axis.
    """

    def looped(batch: mx.array):
        found: list[Any] = [function(batch[i]) for i in range(batch.shape[0])]
        if isinstance(found[0], mx.array):
            return mx.stack(found)
        return tuple(mx.stack([*part]) for part in zip(*found, strict=True))

    return mx.vmap(function) if gpu.device_refusal() else looped
