"""Committees: members that differ by their weights alone, together and one by one."""

from __future__ import annotations

import csv
import io
import json
import os
import signal

import numpy as np
import pytest
from rich.console import Console
from training_runs import write_config, write_data

from mlpot import datasets, training
from mlpot.calculators import MLPotCalculator
from mlpot.datasets import Frame
from mlpot.training import Interrupted, Predictions, combine, load_config
from mlpot.training.checkpoint import read_checkpoint
from mlpot.training.disagreement import disagreement_row, rank_correlation
from mlpot.training.view import ProgressView


def arrays(folder):
    return read_checkpoint(folder / "last.safetensors").arrays


@pytest.fixture(scope="module")
def committee(tmp_path_factory):
    folder = tmp_path_factory.mktemp("committee")
    write_data(folder)
    config = load_config(write_config(folder, n_models=2, max_num_epochs=1))
    return folder, training.train(config)


def test_members_differ_by_their_weights_alone(committee, tmp_path):
    folder, run = committee
    assert len(run.members) == 2
    root = folder / "run"
    splits = [(root / f"member{k}" / "split.json").read_text() for k in (1, 2)]
    assert splits[0] == splits[1]
    one, two = (arrays(root / f"member{k}") for k in (1, 2))
    assert any(not np.array_equal(np.array(one[n]), np.array(two[n])) for n in one)
    # A member is what its configuration gives alone.
    keys = {"train_file": str(folder / "train.h5"), "model_seed": 1, "max_num_epochs": 1}
    training.train(load_config(write_config(tmp_path, **keys)))
    alone = arrays(tmp_path / "run")
    assert all(np.array(alone[n]).tobytes() == np.array(two[n]).tobytes() for n in alone)


def test_errors_and_disagreement_are_those_of_the_predictions(committee):
    folder, _ = committee
    rows = json.loads((folder / "run" / "errors.json").read_text())["rows"]
    models = [row["model"] for row in rows]
    assert models == ["committee", "mean-only", "member1", "member2"]
    with open(folder / "run" / "disagreement.csv", newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    spreads = [float(line["forces_std_max [eV/A]"]) for line in lines]
    assert len(lines) == rows[0]["n_frames"] and spreads == sorted(spreads, reverse=True)
    # The calculator of the folder says the same of the most disputed frame.
    calc = MLPotCalculator(folder / "run")
    assert len(calc.members) == 2
    file, index = lines[0]["frame"].rsplit(":", 1)
    atoms = datasets.read(file)[int(index)].to_atoms()
    calc.calculate(atoms, ["forces"])
    spread = np.sqrt(np.asarray(calc.results["forces_var"]).sum(axis=1)).max()
    assert spread == pytest.approx(spreads[0], rel=1e-3)
    with pytest.raises(FileNotFoundError, match="holds no committee"):
        MLPotCalculator(folder)


def test_a_committee_goes_on_where_it_was_stopped(committee, tmp_path, monkeypatch):
    folder, _ = committee
    told = ProgressView.step
    count = 0

    def stop(self, epoch, loss):
        nonlocal count
        told(self, epoch, loss)
        count += 1
        if count == 4:  # within the second member
            os.kill(os.getpid(), signal.SIGTERM)

    keys = {"train_file": str(folder / "train.h5"), "n_models": 2, "max_num_epochs": 1}
    with monkeypatch.context() as patch:
        patch.setattr(ProgressView, "step", stop)
        with pytest.raises(Interrupted, match=r"member 2 of 2.*\n  mlpot resume .*run$") as caught:
            training.train(load_config(write_config(tmp_path, **keys)))
    assert caught.value.exit_code == 128 + signal.SIGTERM
    said = io.StringIO()
    run = training.resume(tmp_path / "run", Console(file=said, width=400))
    assert len(run.members) == 2
    # The first member had ended, the second had not.
    assert said.getvalue().count("Nothing is left to train in") == 1
    assert f"{tmp_path / 'run' / 'member1'}: 1 epochs done." in said.getvalue()
    assert said.getvalue().count("Going on in epoch 1") == 1
    for k in (1, 2):
        one, other = (arrays(place / "run" / f"member{k}") for place in (folder, tmp_path))
        assert all(np.array(one[n]).tobytes() == np.array(other[n]).tobytes() for n in one)
    with pytest.raises(ValueError, match="holds a run already"):
        training.train(load_config(write_config(tmp_path, **keys)))


def test_one_potential_in_place_of_a_committee(committee, tmp_path):
    folder, _ = committee
    keys = {"train_file": str(folder / "train.h5"), "max_num_epochs": 1}
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "committee.json").write_text('{"members": ["member1"]}')
    with pytest.raises(ValueError, match="holds a run already"):
        training.train(load_config(write_config(tmp_path, **keys)))
    training.train(load_config(write_config(tmp_path, **keys)), overwrite=True)
    assert training.resume(tmp_path / "run").members == ()


def test_disagreement_by_hand():
    frame = Frame([1, 1], [[0, 0, 0], [0, 0, 1]], energy=1.0, forces=[[1, 0, 0], [0, 0, 0]])
    said = [
        Predictions(np.zeros(1), np.array([e]), [np.array([[f, 0, 0], [0, g, 0]])])
        for e, f, g in ((1.0, 1.0, 0.5), (3.0, 3.0, 0.5))
    ]
    mean, spread = combine([frame], said)
    assert mean.energy[0] == 2.0
    assert spread.energy[0] == pytest.approx(0.5)  # standard deviation 1 eV, two atoms
    assert spread.forces[0] == pytest.approx([1.0, 0.0])
    row = disagreement_row("x", [frame], mean, spread)
    assert (row.forces, row.forces_max) == pytest.approx((0.5, 1.0))
    # Errors of the mean force are 1 and 0.5: in the order of the spread.
    assert row.correlation == pytest.approx(1.0)
    assert rank_correlation(np.array([1.0, 2, 3, 4]), np.array([4.0, 3, 2, 1])) == pytest.approx(-1)
    assert rank_correlation(np.ones(3), np.arange(3.0)) is None
    with pytest.raises(ValueError, match="at least two"):
        combine([frame], said[:1])
