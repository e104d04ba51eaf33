"""Values that follow from parameters alone: computed once, kept while the parameters stay."""

from __future__ import annotations

import io
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import mlx.core as mx
import numpy as np


def addresses(arrays: Sequence[mx.array]) -> tuple[Hashable, ...] | None:
    """Where and how the numbers of arrays lie in memory; None if a transformation traces any.

    Inside ``mx.grad``, ``mx.jvp``, ``mx.vmap`` and ``mx.compile`` the arrays that are
    differentiated, mapped or compiled for stand for others: what is computed from them belongs to
    this one trace. All other arrays have numbers, there too.

    Args:
        arrays: parameters.
    """
    # Traced by grad or jvp, or not computed yet: then it has an operation that it comes from.
    graph = io.StringIO()
    mx.export_to_dot(graph, *arrays)
    if "->" in graph.getvalue():
        return None
    try:
        views = [np.asarray(a).__array_interface__ for a in arrays]
    except (ValueError, RuntimeError):
        return None  # compile and vmap refuse to evaluate what they trace, jvp within compile too
    return tuple((v["data"][0], v["typestr"], v["shape"], v["strides"]) for v in views)


class ParameterCache:
    """One value that is a function of parameters.

    The key is where the parameters' numbers lie, not the array objects: assignments to parts of
    an array (``w[0] = 1``, ``w *= 2``) keep the object. The numbers are held on to, so that no
    other array can come to lie in their place. Copies and pickles start empty.
    """

    def __init__(self) -> None:
        self._key: Hashable = None
        self._held: list[mx.array] = []
        self._value: Any = None

    def get(
        self, arrays: Sequence[mx.array], further: Hashable, make: Callable[[bool], Any]
    ) -> Any:
        """The value for these parameters.

        Args:
            arrays: all parameters that the value depends on.
            further: whatever else it depends on.
            make: computes the value. It is told whether the parameters have numbers (True: the
                value must be evaluated), or are traced (False: nothing may be evaluated).
        """
        where = addresses(arrays)
        if where is None:
            return make(False)
        key = (where, further)
        if key != self._key:
            value = make(True)
            held = [mx.stop_gradient(a) for a in arrays]
            mx.eval(held)
            self._key, self._held, self._value = key, held, value
        return self._value

    def __getstate__(self) -> dict:
        return {"_key": None, "_held": [], "_value": None}
