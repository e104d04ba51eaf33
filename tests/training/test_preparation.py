"""What a run takes from its data."""

from __future__ import annotations

import numpy as np
import pytest
from training_runs import write_config, write_data

from mlpot.config import validate
from mlpot.datasets import Frame
from mlpot.training.config import TrainConfig, load_config
from mlpot.training.preparation import TrainingData, doubt_about_E0s, read_data


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


@pytest.mark.parametrize("in_memory", [True, False])
def test_some_of_the_frames(tmp_path, in_memory):
    write_data(tmp_path, 16)
    keys = {"n_train": 5, "in_memory": in_memory}
    config = load_config(write_config(tmp_path, **keys))
    few, again = read_data(config), read_data(config)
    whole = read_data(load_config(write_config(tmp_path)))
    energies = [frame.energy for frame in few.train]
    assert len(energies) == 5
    assert energies == [frame.energy for frame in again.train]
    assert set(energies) < {frame.energy for frame in whole.train}
    assert [f.energy for f in few.valid] == [f.energy for f in whole.valid]
    other = read_data(load_config(write_config(tmp_path, seed=1, **keys)))
    assert energies != [frame.energy for frame in other.train]
    with pytest.raises(ValueError, match="n_train is 40, but there are 12 frames"):
        read_data(load_config(write_config(tmp_path, n_train=40)))
    with pytest.raises(ValueError, match="no training frame is of the type clutser; there are cl"):
        read_data(load_config(write_config(tmp_path, config_type_weights={"clutser": 2.0})))
