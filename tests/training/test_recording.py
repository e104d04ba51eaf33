"""Recorded steps in whole runs: how often Python builds operations, and when."""

from __future__ import annotations

import numpy as np
import pytest
from morse_frames import morse_frames
from rich.console import Console
from training_runs import write_config, write_data

from mlpot import datasets
from mlpot.training import load_config
from mlpot.training.preparation import make_potential, read_data
from mlpot.training.run_folder import RunFolder
from mlpot.training.trainer import Trainer
from mlpot.training.view import ProgressView


def make_trainer(folder, **changes) -> Trainer:
    config = load_config(write_config(folder, **changes))
    data = read_data(config)
    run_folder = RunFolder(config.out)
    run_folder.start()
    return Trainer(config, make_potential(config, data), data, run_folder)


def run(trainer: Trainer) -> None:
    trainer.run(ProgressView(Console(quiet=True), 1, trainer.steps_per_epoch))


def sizes_of(batches, epoch: int) -> set:
    graphs = [batch.graph for batch in batches.epoch(epoch)]
    return {(graph.n_atoms, graph.n_edges, graph.n_graphs) for graph in graphs}


def test_a_size_is_built_once(tmp_path):
    """Over all epochs, in training and in validation; without records every step is built."""
    write_data(tmp_path, 24, crystals=True)
    keys = {"max_num_epochs": 3, "batch_size": 2}
    built = {}
    for record in ("on", "off"):
        trainer = make_trainer(tmp_path, record_steps=record, **keys)
        run(trainer)
        built[record] = trainer.step.n_traces
        if record == "on":
            sizes = set().union(*(sizes_of(trainer.train_batches, k) for k in range(3)))
            valid = sizes_of(trainer.valid_batches, 0)
    assert built["off"] == 3 * (9 + 3)
    assert built["on"] == len(sizes) + len(valid)
    assert built["on"] < built["off"] / 2


def test_the_same_loss_curve(tmp_path):
    """Padding aside, which changes the order of sums and so last digits."""
    write_data(tmp_path)
    curves = []
    for record in ("on", "off"):
        trainer = make_trainer(tmp_path, record_steps=record, out=str(tmp_path / record))
        run(trainer)
        curves.append([row["valid_loss"] for row in trainer.folder.read_metrics()])
    np.testing.assert_allclose(curves[0], curves[1], rtol=1e-4)


@pytest.mark.parametrize(("n_frames", "recorded"), [(4, True), (64, False)])
def test_small_batches_are_recorded_on_cpus(tmp_path, n_frames, recorded):
    crystals = morse_frames(2 * n_frames, crystals=True)[1::2]
    datasets.write(tmp_path / "train.h5", crystals)
    trainer = make_trainer(tmp_path, batch_size=n_frames, E0s={"He": -3.0, "Ne": -5.0})
    graph = next(iter(trainer.train_batches)).graph
    assert (graph.n_edges < 2000) == recorded
    assert trainer.step._slopes.on == recorded
