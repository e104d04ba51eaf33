"""Times of interleaved repeats: medians, spread, and ratios of what ran side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np


@dataclass(frozen=True)
class Spread:
    """Median and the range from the 10th to the 90th percentile."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Of at least one finite number.

        Raises:
            ValueError: there is none, or one is not finite.
        """
        array = np.asarray(values, dtype=float)
        if not array.size or not np.all(np.isfinite(array)):
            raise ValueError(f"cannot summarise {list(values)}: give finite numbers, at least one")
        low, median, high = np.percentile(array, [10, 50, 90])
        return cls(float(median), float(low), float(high))

    def dictionary(self) -> dict[str, float]:
        """For JSON."""
        return asdict(self)


def speedup(baseline: Sequence[float], other: Sequence[float]) -> Spread:
    """How many times faster ``other`` was, from the ratio of each repeat.

    Repeat i of both was taken within seconds, so that a machine that is slow for a while slows
    both and the ratio remains.

    Args:
        baseline: seconds of each repeat.
        other: seconds of the same repeats.

    Raises:
        ValueError: not as many repeats, or a time that is not positive.
    """
    a, b = np.asarray(baseline, dtype=float), np.asarray(other, dtype=float)
    if a.shape != b.shape:
        raise ValueError(f"{a.size} repeats against {b.size}: ratios need pairs")
    if np.any(a <= 0) or np.any(b <= 0):
        raise ValueError("times must be positive")
    return Spread.of(a / b)
