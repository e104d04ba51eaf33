"""Which frames make a loss infinite or not a number."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx
import numpy as np

from mlpot.datasets import Frame, collate

from .parallel import Ranks
from .step import TrainStep


def frames_not_finite(
    step: TrainStep, frames: Sequence[Frame], indices: Sequence[int], n_rows: int, ranks: Ranks
) -> list[str]:
    """Names of those frames of a step whose loss or its gradient are not finite; else of all.

    Args:
        step: with the state before the step that failed.
        frames: training frames.
        indices: those that this process had in the step.
        n_rows: the most that any process had.
        ranks: processes that had others.
    """
    potential = step.state.potential
    own = np.full((n_rows, 2), -1)  # frame, whether it is one of them
    for row, index in enumerate(indices):
        part = collate(
            [frames[index]], potential.cutoff, potential.dtype, E0s=potential.config.E0s, pad=False
        )
        found = step.gradient([part])
        mx.eval(found.loss, found.slopes)
        numbers = [found.loss, *found.slopes.values()]
        own[row] = index, not all(np.isfinite(np.array(array)).all() for array in numbers)
    told = ranks.gather(own).reshape(-1, 2)
    told = told[told[:, 0] >= 0]
    wrong = told[told[:, 1] == 1, 0]
    named = [frames[int(i)] for i in (wrong if len(wrong) else told[:, 0])]
    return [frame.source or frame.formula for frame in named]
