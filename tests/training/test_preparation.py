"""What a run takes from its data."""

from __future__ import annotations

import numpy as np
import pytest

from mlpot.config import validate
from mlpot.datasets import Frame
from mlpot.training.config import TrainConfig
from mlpot.training.preparation import TrainingData, doubt_about_E0s


def frame(*numbers: int) -> Frame:
    positions = 1.5 * np.arange(3 * len(numbers)).reshape(-1, 3)
    return Frame(numbers=numbers, positions=positions, energy=-float(sum(numbers)))


MIXED = [frame(1, 1, 8), frame(1, 8)]
ONE_COMPOSITION = [frame(1, 1, 8), frame(8, 1, 1)]


@pytest.mark.parametrize(
    ("frames", "isolated", "E0s", "named"),
    [
        (ONE_COMPOSITION, [], "auto", "E0 of H, O"),
        (ONE_COMPOSITION, [frame(1), frame(8)], "least_squares", "E0 of H, O"),
        (ONE_COMPOSITION, [frame(1), frame(8)], "auto", ""),
        (ONE_COMPOSITION, [], {"H": -1.0, "O": -8.0}, ""),
        (MIXED, [], "auto", ""),
    ],
)
def test_arbitrary_fitted_energies_are_said(frames, isolated, E0s, named):
    config = validate({"train_file": "a.xyz", "r_max": 4.0, "E0s": E0s}, TrainConfig, "test")
    data = TrainingData(train=frames, valid=frames, tests={}, isolated=isolated, split={})
    doubt = doubt_about_E0s(config, data)
    assert named in doubt
    assert bool(doubt) == bool(named)
