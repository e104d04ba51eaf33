"""Runs that are killed, and disks that are full: nothing is lost but time."""

from __future__ import annotations

import resource

import kills
import numpy as np
import pytest
from training_runs import SMALL, write_config, write_data

from mlpot import training
from mlpot.training import load_config
from mlpot.training.checkpoint import read_checkpoint
from mlpot.training.view import ProgressView


def test_killed_runs_end_with_the_same_bits(tmp_path):
    """Two kills of short runs; evals/kills.py does twenty of 400 steps."""
    write_data(tmp_path, 16)
    (tmp_path / "train.h5").rename(tmp_path / "frames.h5")
    found = kills.experiment(
        tmp_path, 2, seed=3, again=0.0, r_max=4.0, model=SMALL["model"], max_num_epochs=10
    )
    assert found["steps"] == 10 * 7
    assert len(found["kills"]) >= 2
    assert found["different"] == []


def test_leftovers_of_a_kill_are_removed(tmp_path):
    write_data(tmp_path)
    run = training.train(load_config(write_config(tmp_path, max_num_epochs=1)))
    folder = run.folder.path
    (folder / ".last.4194305.0a1b2c3d.safetensors").write_bytes(b"half")
    (folder / ".notes.txt").write_text("mine")
    training.resume(folder)
    assert [file.name for file in folder.iterdir() if file.name[0] == "."] == [".notes.txt"]


def test_a_disk_that_fills_up(tmp_path, monkeypatch):
    """The system refuses to write more than so many bytes to a file, as on a full disk."""
    write_data(tmp_path)
    training.train(load_config(write_config(tmp_path, out=str(tmp_path / "whole"))))
    told, limits = ProgressView.step, resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(self, epoch, loss):
        told(self, epoch, loss)
        if self.done == 2:
            resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))

    try:
        with monkeypatch.context() as patch:
            patch.setattr(ProgressView, "step", fill)
            with pytest.raises(OSError, match=r"cannot be written(.|\n)*mlpot resume .*run"):
                training.train(load_config(write_config(tmp_path)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    folder = tmp_path / "run"
    assert read_checkpoint(folder / "last.safetensors").progress["step"] == 0
    training.resume(folder)
    whole, other = (
        read_checkpoint(tmp_path / name / "last.safetensors").arrays for name in ("whole", "run")
    )
    for name, array in whole.items():
        assert np.array(array).tobytes() == np.array(other[name]).tobytes(), name


def test_long_epochs_are_saved_in_between(tmp_path, monkeypatch):
    write_data(tmp_path)
    saved, really_save = [], training.trainer.Trainer.save

    def save(self):
        saved.append(self.progress.step)
        really_save(self)

    monkeypatch.setattr(training.trainer.Trainer, "save", save)
    keys = {"max_num_epochs": 1, "batch_size": 2, "save_minutes": 1e-9}
    training.train(load_config(write_config(tmp_path, **keys)))
    assert saved == [0, 1, 2, 3, 4, 5, 6]
    saved.clear()
    keys["save_minutes"] = 10.0
    training.train(load_config(write_config(tmp_path, **keys)), overwrite=True)
    assert saved == [0, 6]
