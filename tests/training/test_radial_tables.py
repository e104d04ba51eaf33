"""Training with radial tables: gradients, the numbers of intervals, exact resumption."""

from __future__ import annotations

import signal

import mlx.core as mx
import numpy as np
import pytest
from morse_frames import E0, morse_frames
from training_runs import SMALL, write_config, write_data

from mlpot import training
from mlpot.config import validate
from mlpot.datasets import collate
from mlpot.io import load, read_file
from mlpot.models import Potential, PotentialConfig
from mlpot.training import Interrupted, Objective, TrainConfig, load_config
from mlpot.training.checkpoint import read_checkpoint
from mlpot.training.state import TrainState
from mlpot.training.step import TrainStep
from mlpot.training.trainer import Trainer
from mlpot.training.view import ProgressView

#: Weight of the first radial network's first layer.
FIRST = "layers.0.first.fc.layer0.weight"
TABLE = SMALL["model"] | {"radial": "table"}


def gradient(radial: str) -> tuple[float, dict[str, np.ndarray]]:
    """Loss of a batch and its gradient, with the same weights whatever ``radial`` is."""
    model = SMALL["model"] | {"radial": radial}
    config = validate(SMALL | {"model": model}, TrainConfig, "test")
    mx.random.seed(3)
    potential = Potential(
        PotentialConfig(numbers=[2, 10], cutoff=4.0, model=config.model, E0s=E0, scale=0.5)
    )
    potential.set_dtype(mx.float64)
    potential.set_radial_intervals(potential.needed_radial_intervals())
    objective = Objective(config.loss, {"energy": 1.0, "forces": 10.0, "stress": 100.0})
    step = TrainStep(TrainState(potential, config), objective, stress=True, clip_grad=None)
    batch = collate(morse_frames(4, crystals=True), 4.0, mx.float64, E0s=E0, pad=False)
    found = step.gradient([batch])
    return found.loss.item(), {name: np.array(array) for name, array in found.slopes.items()}


def test_a_step_is_that_of_the_exact_network():
    with mx.stream(mx.cpu):
        (loss, exact), (tabulated, own) = gradient("exact"), gradient("table")
    assert tabulated != loss
    assert tabulated == pytest.approx(loss, rel=1e-6)
    for name in exact:
        size = np.abs(exact[name]).max()
        assert np.abs(own[name] - exact[name]).max() <= 1e-5 * size, name


def test_tables_become_finer_between_epochs(tmp_path, monkeypatch):
    """Weights that were made sharper during an epoch have a finer table in the next one."""
    used = []
    epoch = Trainer._epoch

    def sharpening(self, *arguments):
        epoch(self, *arguments)
        used.append(self.potential.radial_intervals)
        (name,) = (n for n in self.state.arrays if n.startswith("model.") and FIRST in n)
        sharper = self.state.arrays[name] * (6.0 if len(used) == 1 else 1.0)
        self.state.arrays = self.state.arrays | {name: sharper}

    monkeypatch.setattr(Trainer, "_epoch", sharpening)
    write_data(tmp_path)
    config = load_config(write_config(tmp_path, model=TABLE, max_num_epochs=3, lr=1e-5))
    training.train(config)
    first, second, third = used
    assert second[0] > 1.5 * first[0]
    assert second[1] == first[1]
    assert third == second
    progress = read_checkpoint(tmp_path / "run" / "last.safetensors").progress
    assert progress["radial_intervals"] == third
    best = tmp_path / "run" / "best.safetensors"
    assert load(best).radial_intervals == load(best).needed_radial_intervals()
    assert "radial_intervals" in read_file(best)[1]


def stop_after(monkeypatch, steps: int) -> None:
    told = ProgressView.step

    def stop(self, epoch, loss):
        told(self, epoch, loss)
        if self.done == steps:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(ProgressView, "step", stop)


def test_resuming_is_exact(tmp_path, monkeypatch):
    write_data(tmp_path)
    keys = {"model": TABLE, "lr": 0.05}
    training.train(load_config(write_config(tmp_path, out=str(tmp_path / "whole"), **keys)))
    with monkeypatch.context() as patch:
        stop_after(patch, 4)
        with pytest.raises(Interrupted):
            training.train(load_config(write_config(tmp_path, **keys)))
    last = tmp_path / "run" / "last.safetensors"
    stopped = read_checkpoint(last).progress
    assert stopped["batch"] > 0
    seen = []
    epoch = Trainer._epoch

    def watched(self, *arguments):
        seen.append(self.potential.radial_intervals)
        epoch(self, *arguments)

    monkeypatch.setattr(Trainer, "_epoch", watched)
    training.resume(tmp_path / "run")
    # Within an epoch tables stay as fine as they were, whatever the weights would need now.
    assert seen[0] == stopped["radial_intervals"]
    whole = read_checkpoint(tmp_path / "whole" / "last.safetensors")
    resumed = read_checkpoint(last)
    assert resumed.progress["radial_intervals"] == whole.progress["radial_intervals"]
    assert resumed.arrays.keys() == whole.arrays.keys()
    for name, array in whole.arrays.items():
        assert np.array(array).tobytes() == np.array(resumed.arrays[name]).tobytes(), name
