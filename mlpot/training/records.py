"""Functions of a step, recorded for each size of a batch."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

import mlx.core as mx

from mlpot import kernels
from mlpot.kernels.replay import Replayed, available

#: Sizes that are remembered; the least recently used are forgotten, with their records.
MOST_SIZES = 64


class Records:
    """A pure function of dictionaries of arrays, recorded at its first call with each size.

    Every call is replayed, the first one too: what comes out depends on nothing that happened
    before, so that a run that goes on has the bits of one that was not interrupted.

    Args:
        function: takes dictionaries of arrays. What else it takes must not change while
            ``context`` stays.
        on: False calls the function itself, always.

    Attributes:
        n_traces: how often the function itself ran.
    """

    def __init__(self, function: Callable[..., Any], on: bool) -> None:
        self._function, self.on = function, on and available()
        self.n_traces = 0
        self._context: Hashable = None
        self._sizes: OrderedDict[Hashable, Replayed] = OrderedDict()

    def __call__(self, *arguments: dict[str, mx.array], context: Hashable = None) -> Any:
        """Call the function; nothing is evaluated.

        Args:
            arguments: of the function.
            context: what else its result depends on; all records are dropped when it changes.
        """
        if not self.on:
            return self._plain(*arguments)
        context = (context, kernels.backend.chosen(), str(mx.default_stream(mx.default_device())))
        if context != self._context:
            self._context = context
            self._sizes.clear()
        size = tuple(tuple(array.shape for array in one.values()) for one in arguments)
        record = self._sizes.get(size)
        if record is None:
            record = self._sizes[size] = Replayed(self._plain)
        self._sizes.move_to_end(size)
        while len(self._sizes) > MOST_SIZES:
            self._sizes.popitem(last=False)
        return record(*arguments)

    def _plain(self, *arguments: dict[str, mx.array]) -> Any:
        self.n_traces += 1
        return self._function(*arguments)
