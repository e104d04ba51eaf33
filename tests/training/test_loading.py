"""Runs on frames that stay on the disk: the same numbers as on frames in memory."""

from __future__ import annotations

import json

import numpy as np
import pytest
from morse_frames import morse_frames
from training_runs import write_config, write_data

from mlpot import datasets, training
from mlpot.datasets import StoredFrames
from mlpot.training import load_config, loading
from mlpot.training.checkpoint import read_checkpoint


def test_frames_left_on_the_disk_train_as_those_in_memory(tmp_path):
    write_data(tmp_path, crystals=True)
    runs = {}
    for name, in_memory in (("memory", None), ("disk", False)):
        folder = tmp_path / name
        config = load_config(write_config(tmp_path, out=str(folder), in_memory=in_memory))
        runs[name] = training.train(config), read_checkpoint(folder / "last.safetensors"), folder
    (one, first, listed), (other, second, stored) = runs.values()
    assert first.arrays.keys() == second.arrays.keys()
    for name, array in first.arrays.items():
        assert np.array(array).tobytes() == np.array(second.arrays[name]).tobytes(), name
    assert [row.mae for row in one.errors] == [row.mae for row in other.errors]
    wanted = json.loads((listed / "split.json").read_text())["valid"]
    ((file, rows),) = json.loads((stored / "split.json").read_text())["valid"].items()
    assert [f"{file}:{row}" for row in rows] == wanted
    training.resume(stored)
    xyz = tmp_path / "frames.xyz"
    datasets.write(xyz, morse_frames(6))
    config = write_config(tmp_path, train_file=str(xyz), out=str(tmp_path / "x"), in_memory=False)
    with pytest.raises(ValueError, match="only HDF5 of mlpot can stay on the disk"):
        training.train(load_config(config))


def test_very_many_frames_stay_on_the_disk_and_are_sampled(tmp_path, monkeypatch):
    write_data(tmp_path, 12)
    file = str(tmp_path / "train.h5")
    assert isinstance(loading.load_frames([file], {}, None), list)
    assert isinstance(loading.load_frames([file], {}, False), StoredFrames)
    monkeypatch.setattr(loading, "MOST_IN_MEMORY", 10)
    frames = loading.load_frames([file], {}, None)
    assert isinstance(frames, StoredFrames)
    assert isinstance(loading.load_frames([file], {}, True), list)
    usable, isolated = loading.without_isolated(frames)
    assert (len(usable), len(isolated)) == (12, 2)
    some = loading.sampled(usable, 4)
    assert [frame.source for frame in some] == [f"{file}:{k}" for k in (0, 4, 7, 11)]
    in_memory = list(usable)
    assert loading.sampled(in_memory, 4) is in_memory
    monkeypatch.setattr(loading, "SAMPLE", 4)
    text = loading.describe(usable)
    assert text.startswith("12 frames, read when used (labels: energy 12, forces 12, stress 0)")
    assert "4 frames, " in text
    with pytest.raises(ValueError, match="is in eV and Angstrom already"):
        loading.load_frames([file], {"energy_unit": "Hartree"}, False)
