"""Where a run stands."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx
import numpy as np

from .objective import TERMS


def no_sums() -> list[list[float]]:
    """Sums of errors of nothing, see `Objective.sums`."""
    return [[0.0] * 4 for _ in TERMS]


@dataclass
class Progress:
    """Where a run stands.

    Args:
        epoch: epochs that are complete.
        batch: batches of the present epoch that are done.
        step: steps in all.
        best_loss: smallest validation loss, None before the first.
        best_epoch: epoch it belongs to.
        sums: errors of the present epoch so far, see `Objective.sums`.
        gradient_norm: sum over the present epoch so far.
        seconds: spent, over all parts of a run.
        schedule: state of the learning rate.
        radial_intervals: of the radial tables in the present epoch.
        shifts: added to the energies of old frames, for each atom by its atomic number, eV.
    """

    epoch: int = 0
    batch: int = 0
    step: int = 0
    best_loss: float | None = None
    best_epoch: int = 0
    sums: list[list[float]] = field(default_factory=no_sums)
    gradient_norm: float = 0.0
    seconds: float = 0.0
    schedule: dict = field(default_factory=dict)
    radial_intervals: list[int] = field(default_factory=list)
    shifts: dict[str, float] = field(default_factory=dict)

    def add(self, batches: int, sums: np.ndarray, gradient_norm: float) -> None:
        """Count a step that is done.

        Args:
            batches: how many it took.
            sums: of their errors.
            gradient_norm: of the step.
        """
        self.step, self.batch = self.step + 1, self.batch + batches
        self.sums = (np.array(self.sums) + sums).tolist()
        self.gradient_norm += gradient_norm


def random_state() -> mx.array:
    """The key of MLX's random numbers."""
    state: Any = mx.random.state  # a list of one array, the key
    return state[0]


def set_random_state(key: mx.array) -> None:
    """MLX takes no key as its state, but makes the key of a seed from its two halves."""
    high, low = np.array(key).tolist()
    mx.random.seed(high << 32 | low)
