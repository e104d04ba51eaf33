"""What was recorded of a potential for sizes of graphs that come often."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten

from mlpot import kernels
from mlpot.kernels.replay import Replayed, available
from mlpot.models import Potential
from mlpot.models.parameter_cache import addresses
from mlpot.models.radial_layers import radial_layers

#: Sizes that are remembered; the least recently used are forgotten, with their records.
MOST_SIZES = 32
#: Recording takes as long as two or three plain calls, so a size is recorded when it comes again:
#: structures that are all different are computed plainly.
CALLS_BEFORE_RECORDING = 2


class Records:
    """Records of functions of one potential and a graph, by size.

    Building the operations in Python takes several milliseconds, more than small systems take to
    compute. A record is used only while the potential's weights lie where they lay, and the choice
    of kernels and of radial tables is the same.

    Args:
        potential: the model.
    """

    def __init__(self, potential: Potential) -> None:
        self.potential = potential
        self._layers = radial_layers(potential)
        modules = [module for _, module in potential.named_modules()]
        self._networks = [m for m in modules if hasattr(m, "radial_strategy")]
        self._weights: Any = None
        self._sizes: OrderedDict[Hashable, list[Any]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """How many sizes are recorded now."""
        return sum(record is not None for _, record in self._sizes.values())

    def find(self, size: Hashable, function: Callable[..., Any]) -> Replayed | None:
        """The record for this size, made if it is its turn.

        Args:
            size: all that shapes and kinds of the arrays depend on.
            function: of dictionaries of arrays, for `mlpot.kernels.replay.Replayed`.

        Returns:
            The record, or None: then the function is to be called plainly.
        """
        if not available():
            return None
        with self._lock:
            return self._find(size, function)

    def _find(self, size: Hashable, function: Callable[..., Any]) -> Replayed | None:
        flat: Any = tree_flatten(self.potential.parameters())
        where = addresses([array for _, array in flat])
        stream = str(mx.default_stream(mx.default_device()))
        kept = (where, kernels.backend.chosen(), kernels.dispatch.forced_choice(), stream)
        intervals = [layer.radial_table.intervals for layer in self._layers]
        radial = (*intervals, *(network.radial_strategy for network in self._networks))
        state = (kept, radial, self.potential.feature_dtype)
        if where is None or state != self._weights:
            self._sizes.clear()
            self._weights = state
        if where is None:
            return None
        entry = self._sizes.setdefault(size, [0, None])
        self._sizes.move_to_end(size)
        while len(self._sizes) > MOST_SIZES:
            self._sizes.popitem(last=False)
        entry[0] += 1
        if entry[1] is None and entry[0] > CALLS_BEFORE_RECORDING:
            entry[1] = Replayed(function)
        return entry[1]
