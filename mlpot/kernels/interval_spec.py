"""Grids of intervals that distances are located in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from .constants import Constant

#: Powers t^0 to t^5 of the place within an interval; a table has so many rows for each.
N_POWERS = 6


@dataclass(frozen=True, eq=False)
class IntervalSpec:
    """Pieces of equal intervals, one after the other from 0 to the cutoff.

    Args:
        cutoff: unit of the distances.
        starts: (n_pieces,) where pieces begin, ascending from 0.
        counts: (n_pieces,) intervals of each.
        left: (n_intervals,) where t = 0.
        widths: (n_intervals,) distance from t = 0 to t = 1.
    """

    cutoff: float
    starts: Sequence[float]
    counts: Sequence[int]
    left: np.ndarray
    widths: np.ndarray
    caches: dict = field(default_factory=dict, repr=False)

    @property
    def n_intervals(self) -> int:
        """Intervals of all pieces."""
        return int(sum(self.counts))

    def inverse_steps(self) -> np.ndarray:
        """(n_pieces,) intervals for each unit of distance."""
        return np.array(self.counts) / np.diff([*self.starts, self.cutoff])

    def first_intervals(self) -> np.ndarray:
        """(n_pieces + 1,) the first interval of each piece, and the number of all."""
        return np.concatenate([[0], np.cumsum(self.counts)]).astype(int)

    def constant(self, name: str) -> Constant:
        """``left`` or ``inverse`` (1 / widths) for graphs."""
        if name not in self.caches:
            self.caches[name] = Constant(self.left if name == "left" else 1.0 / self.widths)
        return self.caches[name]

    def __getstate__(self) -> dict:
        """Copies and pickles make their own caches."""
        return self.__dict__ | {"caches": {}}
