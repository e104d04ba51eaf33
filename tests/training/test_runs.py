"""Whole runs: learning, files, determinism, exact resumption, faults."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
from dataclasses import asdict

import mlx.core as mx
import numpy as np
import pytest
from morse_frames import isolated_atoms, morse_frames
from training_runs import write_config, write_data

import mlpot
from mlpot import datasets, training
from mlpot.training import Interrupted, load_config
from mlpot.training.checkpoint import read_checkpoint
from mlpot.training.view import ProgressView


@pytest.fixture
def folder(tmp_path):
    write_data(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder with data and a finished run in it, not to be changed."""
    folder = tmp_path_factory.mktemp("finished")
    write_data(folder)
    training.train(load_config(write_config(folder)))
    return folder


def config_beside(finished, tmp_path, **changes):
    """A configuration for the same data that writes to another folder."""
    keys = {"train_file": str(finished / "train.h5"), "out": str(tmp_path / "run")}
    return load_config(write_config(tmp_path, **(keys | changes)))


def contents(folder) -> dict:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def interrupt_at(monkeypatch, step: int, number: int = signal.SIGINT) -> None:
    """Send this process a signal after so many steps."""
    told = ProgressView.step

    def stop(self, epoch, loss):
        told(self, epoch, loss)
        if self.done == step:
            os.kill(os.getpid(), number)

    monkeypatch.setattr(ProgressView, "step", stop)


def final_arrays(folder) -> dict[str, np.ndarray]:
    arrays = read_checkpoint(folder / "last.safetensors").arrays
    return {name: np.array(array) for name, array in arrays.items()}


def assert_same_bits(a: dict, b: dict) -> None:
    assert a.keys() == b.keys()
    for name in a:
        assert a[name].tobytes() == b[name].tobytes(), name


def without_seconds(path) -> list[dict]:
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return [{name: text for name, text in row.items() if name != "seconds"} for row in rows]


def assert_same_runs(a, b) -> None:
    """Bits of the state and of the best model, and the lines of metrics.csv."""
    assert_same_bits(final_arrays(a), final_arrays(b))
    assert (a / "best.safetensors").read_bytes() == (b / "best.safetensors").read_bytes()
    assert without_seconds(a / "metrics.csv") == without_seconds(b / "metrics.csv")


def test_the_same_seed_gives_the_same_bits(finished, tmp_path):
    # In the metadata of the model stands where its data came from, so that is the same too.
    training.train(config_beside(finished, tmp_path))
    assert_same_runs(finished / "run", tmp_path / "run")
    training.train(config_beside(finished, tmp_path, seed=1), overwrite=True)
    rows = [without_seconds(folder / "run" / "metrics.csv") for folder in (finished, tmp_path)]
    assert rows[0] != rows[1]


@pytest.mark.parametrize(
    ("step", "number"),
    [(1, signal.SIGINT), (3, signal.SIGTERM)],  # within an epoch and at its end
)
def test_resuming_is_exact(finished, tmp_path, monkeypatch, step, number):
    with monkeypatch.context() as patch:
        interrupt_at(patch, step, number)
        with pytest.raises(Interrupted, match=r"mlpot resume .*run") as stop:
            training.train(config_beside(finished, tmp_path))
    assert stop.value.exit_code == 128 + number
    assert read_checkpoint(tmp_path / "run" / "last.safetensors").progress["step"] == step
    mx.random.seed(1234)
    training.resume(tmp_path / "run")
    assert_same_runs(finished / "run", tmp_path / "run")


def test_resuming_is_exact_in_float64_and_on_a_plateau(folder, monkeypatch):
    keys = {"dtype": "float64", "scheduler": {"name": "plateau", "patience": 1}, "ema_decay": 0.5}
    keys |= {"max_num_epochs": 3, "optimizer": {"name": "adamw"}, "loss": {"name": "huber"}}
    training.train(load_config(write_config(folder, out=str(folder / "whole"), **keys)))
    with monkeypatch.context() as patch:
        interrupt_at(patch, 5)
        with pytest.raises(Interrupted):
            training.train(load_config(write_config(folder, **keys)))
    training.resume(folder / "run")
    assert_same_runs(folder / "whole", folder / "run")
    assert final_arrays(folder / "run")["average.network.embedding.weight"].dtype == np.float64


@pytest.mark.parametrize(
    "optimizer",
    [{"name": "schedule_free"}, {"name": "muon", "adamw_lr": 0.001}, {"name": "lion"}],
    ids=lambda optimizer: optimizer["name"],
)
def test_resuming_is_exact_with_what_each_optimizer_keeps(folder, monkeypatch, optimizer):
    keys = {"optimizer": optimizer, "lr": 0.003, "accumulation_steps": 2}
    keys |= {"batch_size": 2, "record_steps": "on", "max_num_epochs": 3}
    keys |= {"stages": [{"from_epoch": 2, "energy_weight": 100.0}]}
    training.train(load_config(write_config(folder, out=str(folder / "whole"), **keys)))
    config = load_config(write_config(folder, **keys))
    starts = {2: lambda: training.train(config), 3: lambda: training.resume(folder / "run")}
    for step, start in starts.items():
        with monkeypatch.context() as patch:
            interrupt_at(patch, step)
            with pytest.raises(Interrupted):
                start()
    training.resume(folder / "run")
    assert_same_runs(folder / "whole", folder / "run")


def test_resuming_after_a_crash_between_files(finished, tmp_path):
    """A kill may come after metrics.csv was written and before last.safetensors was."""
    run = tmp_path / "run"
    shutil.copytree(finished / "run", run)
    os.replace(run / "last.previous.safetensors", run / "last.safetensors")
    with open(run / "metrics.csv", "a") as file:
        file.write("4,0.1,")  # cut short
    training.resume(run)
    assert_same_runs(finished / "run", run)


def test_a_finished_run_stays_finished(finished, tmp_path):
    shutil.copytree(finished / "run", tmp_path / "run")
    run = training.resume(tmp_path / "run")
    assert_same_runs(finished / "run", tmp_path / "run")
    assert run.reason == "2 epochs done"
    written = json.loads((finished / "run" / "errors.json").read_text())["rows"]
    assert [asdict(row) for row in run.errors] == written


@pytest.mark.parametrize("record", ["off", "on"])
@pytest.mark.parametrize("accumulation", [1, 2])
def test_one_evaluation_a_step(folder, monkeypatch, accumulation, record):
    steps, evaluations = [], []
    evaluate, told = mx.eval, ProgressView.step

    def counted(*arrays):
        evaluations.append(len(steps))
        evaluate(*arrays)

    def step(self, epoch, loss):
        steps.append(epoch)
        told(self, epoch, loss)

    monkeypatch.setattr(ProgressView, "step", step)
    monkeypatch.setattr(mx, "eval", counted)
    keys = {"accumulation_steps": accumulation, "record_steps": record}
    keys |= {"max_num_epochs": 1, "batch_size": 4 // accumulation}
    training.train(load_config(write_config(folder, **keys)))
    assert len(steps) == 3
    # Before the first step the model is made, after the last one comes validation.
    assert [evaluations.count(done) for done in (1, 2)] == [1, 1]


def test_patience(folder):
    config = load_config(write_config(folder, lr=1e-12, patience=2, max_num_epochs=20))
    run = training.train(config)
    assert "no better validation loss for 2 epochs" in run.reason
    rows = without_seconds(folder / "run" / "metrics.csv")
    best = min(range(len(rows)), key=lambda i: float(rows[i]["valid_loss"]))
    assert len(rows) == best + 1 + 2


def test_a_loss_that_is_not_finite_names_its_frames(folder):
    frames = morse_frames(16)
    frames[6].energy = 1e30  # finite, its square is not
    datasets.write(folder / "train.h5", [*frames, *isolated_atoms()])
    datasets.write(folder / "valid.h5", morse_frames(4, seed=3))
    keys = {"E0s": {"He": -3.0, "Ne": -5.0}, "valid_fraction": None, "valid_file": "valid.h5"}
    with pytest.raises(ValueError, match=r"not finite in epoch 1, step \d; frames:") as told:
        training.train(load_config(write_config(folder, **keys)))
    assert "train.h5:6\n" in str(told.value)
    assert "train.h5:5" not in str(told.value)
    for array in final_arrays(folder / "run").values():
        assert np.isfinite(array.astype(np.float64)).all()


def test_missing_labels_are_masked(folder):
    """Frames without forces or energies train with what they have."""
    frames = morse_frames(16)
    for index, frame in enumerate(frames):
        if index % 3 == 0:
            frame.forces = None
        if index % 3 == 1:
            frame.energy = None
    datasets.write(folder / "train.h5", [*frames, *isolated_atoms()])
    run = training.train(load_config(write_config(folder)))
    everything = run.errors[0]
    assert everything.n_labels["energy"] < everything.n_frames == 12
    rows = without_seconds(folder / "run" / "metrics.csv")
    assert all(np.isfinite(float(row["train_loss"])) for row in rows)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train_file": "nowhere.xyz"}, "nowhere.xyz"),
        ({"valid_fraction": None, "valid_file": "other.xyz"}, "Ar is in no training frame"),
        ({"test_file": "other.xyz"}, "Ar is in no training frame"),
        ({"keys": {"energy_key": "Energie"}, "train_file": "plain.xyz"}, "Energie"),
        ({"E0s": {"He": -3.0}}, "Ne"),
        ({"stress_weight": 1.0}, "no training frame has stress.*stress_weight"),
        ({"r_max": 0.1}, "closer than r_max"),
        ({"train_file": "atoms.xyz"}, "isolated atoms"),
        ({"train_file": "empty.xyz"}, "empty"),
        ({"train_file": "nan.xyz"}, "nan.xyz:1: .*nan"),
        ({"train_file": "broken.h5"}, "broken.h5"),
    ],
)
def test_wrong_input_changes_nothing(finished, tmp_path, changes, message):
    folder = tmp_path
    datasets.write(folder / "other.xyz", [datasets.Frame([18, 18], [[0, 0, 0], [3.0, 0, 0]])])
    datasets.write(folder / "plain.xyz", morse_frames(4))
    datasets.write(folder / "atoms.xyz", isolated_atoms())
    (folder / "empty.xyz").write_text("")
    datasets.write(folder / "nan.xyz", morse_frames(2))
    text = (folder / "nan.xyz").read_text().replace("energy=", "energy=nan old=", 2)
    (folder / "nan.xyz").write_text(text.replace("energy=nan old=", "energy=", 1))
    (folder / "broken.h5").write_bytes((finished / "train.h5").read_bytes()[:900])
    before = contents(finished / "run")
    keys = {"train_file": str(finished / "train.h5"), "out": str(finished / "run")}
    config = load_config(write_config(folder, **(keys | changes)))
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        training.train(config, overwrite=True)
    assert contents(finished / "run") == before


def test_a_run_is_not_overwritten_unasked(finished, tmp_path):
    shutil.copytree(finished / "run", tmp_path / "run")
    (tmp_path / "run" / "notes.txt").write_text("mine")
    before = contents(tmp_path / "run")
    with pytest.raises(ValueError, match=r"holds a run already(.|\n)*--overwrite"):
        training.train(config_beside(finished, tmp_path))
    assert contents(tmp_path / "run") == before
    training.train(config_beside(finished, tmp_path, seed=3, max_num_epochs=1), overwrite=True)
    assert (tmp_path / "run" / "notes.txt").read_text() == "mine"
    assert load_config(tmp_path / "run" / "config.yaml").seed == 3


def test_resume_refuses_what_does_not_fit(folder):
    with pytest.raises(FileNotFoundError, match="holds no run"):
        training.resume(folder / "nothing")
    training.train(load_config(write_config(folder, max_num_epochs=1)))
    write_data(folder, seed=7)
    before = contents(folder / "run")
    with pytest.raises(ValueError, match="not what they were"):
        training.resume(folder / "run")
    assert contents(folder / "run") == before
    last = folder / "run" / "last.safetensors"
    last.write_bytes(last.read_bytes()[:-5])
    with pytest.raises(ValueError, match=r"damaged(.|\n)*last\.previous\.safetensors"):
        training.resume(folder / "run")


def test_every_backbone_trains_and_loads(folder):
    model = {"name": "gate_points", "channels": 2, "layers": 1, "lmax": 1, "radial_neurons": [4]}
    training.train(load_config(write_config(folder, model=model)))
    rows = without_seconds(folder / "run" / "metrics.csv")
    assert float(rows[-1]["train_loss"]) < float(rows[0]["train_loss"])
    assert mlpot.load(folder / "run" / "best.safetensors").config.model.name == "gate_points"


def test_the_model_knows_the_closest_pair_of_its_data(finished):
    _, metadata = mx.load(str(finished / "run" / "best.safetensors"), return_metadata=True)
    frames = datasets.read(finished / "train.h5")
    closest = float(metadata["closest_pair"])
    # Of those frames that were trained on, not validated with.
    assert closest >= datasets.closest_pair(frames) and closest < 3.0


def test_weights_of_kinds_of_frames(folder):
    """Crystals that count nothing leave the run of the others, whatever their labels are."""
    datasets.write(folder / "train.h5", [*morse_frames(16, crystals=True), *isolated_atoms()])
    keys = {"config_type_weights": {"crystal": 0.0}, "E0s": {"He": -3.0, "Ne": -5.0}}
    keys |= {"max_num_epochs": 1, "batch_size": 16, "stress_weight": 0.0}
    training.train(load_config(write_config(folder, **keys)))
    spoiled = [
        frame.replace(energy=frame.energy + 50.0) if frame.config_type == "crystal" else frame
        for frame in datasets.read(folder / "train.h5")
    ]
    datasets.write(folder / "train.h5", spoiled)
    losses = []
    for name, changes in (("same", {}), ("counted", {"config_type_weights": {}})):
        out = str(folder / name)
        training.train(load_config(write_config(folder, out=out, **(keys | changes))))
        losses.append(float(without_seconds(folder / name / "metrics.csv")[0]["train_loss"]))
    first = float(without_seconds(folder / "run" / "metrics.csv")[0]["train_loss"])
    assert losses[0] == first
    assert losses[1] > 100 * first


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_features_of_16_bits(finished, tmp_path, dtype):
    """A run goes where that of float32 goes; the model that is saved computes in float32."""
    run = training.train(config_beside(finished, tmp_path, feature_dtype=dtype))
    rows, other = (without_seconds(f / "run" / "metrics.csv") for f in (tmp_path, finished))
    assert rows != other
    for row, wide in zip(rows, other, strict=True):
        assert float(row["valid_loss"]) == pytest.approx(float(wide["valid_loss"]), rel=0.05)
    assert run.potential.feature_dtype == mx.float32
    arrays = read_checkpoint(tmp_path / "run" / "last.safetensors").arrays
    assert {a.dtype for name, a in arrays.items() if name.startswith("model.")} == {mx.float32}
