"""Running average of parameters."""

from __future__ import annotations

import mlx.core as mx
from mlx.utils import tree_map


def decay_at(step: int, decay: float) -> float:
    """Decay of the average at a step, counted from 0: small at first, so that it starts quickly."""
    return min(decay, (1 + step) / (10 + step))


class RunningAverage:
    """Exponential running average, ``average <- d average + (1 - d) parameters``.

    Args:
        parameters: tree of the parameters at the start.

    Attributes:
        state: ``{"parameters": tree}``, replaced in place at each update.
    """

    def __init__(self, parameters: dict) -> None:
        self.state = {"parameters": tree_map(lambda array: array, parameters)}

    def update(self, parameters: dict, decay: mx.array) -> None:
        """Take up new parameters, lazily.

        Args:
            parameters: tree like the first one.
            decay: (), d above.
        """

        def mix(old: mx.array, new: mx.array) -> mx.array:
            d = decay.astype(new.dtype)
            return d * old + (1 - d) * new

        self.state["parameters"] = tree_map(mix, self.state["parameters"], parameters)
