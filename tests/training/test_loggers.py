"""What TensorBoard and Weights & Biases are given, read back from their files."""

from __future__ import annotations

import importlib.util
import warnings

import pytest
from training_runs import write_config, write_data

from mlpot import training
from mlpot.training import load_config
from mlpot.training.config_sections import LoggingSection
from mlpot.training.loggers import Loggers, check_loggers
from mlpot.training.run_folder import read_rows


def metrics(folder) -> list[dict[str, float]]:
    return [{k: float(v) for k, v in r.items() if v} for r in read_rows(folder / "metrics.csv")]


def scalars(folder) -> dict[str, dict[int, float]]:
    """Tags, steps and values in TensorBoard's files."""
    from tensorboardX.proto.event_pb2 import Event

    found: dict[str, dict[int, float]] = {}
    for path in sorted(folder.glob("events.out.tfevents.*")):
        data, place = path.read_bytes(), 0
        while place < len(data):
            # A record: length (8 bytes), its checksum (4), the event, its checksum (4).
            length = int.from_bytes(data[place : place + 8], "little")
            event = Event.FromString(data[place + 12 : place + 12 + length])
            place += length + 16
            for value in event.summary.value:
                found.setdefault(value.tag, {})[event.step] = value.simple_value
    return found


def test_tensorboard_has_the_numbers_of_metrics(tmp_path):
    write_data(tmp_path)
    config = write_config(tmp_path, logging={"tensorboard": True})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of protobuf
        training.train(load_config(config))
        found = scalars(tmp_path / "run" / "tensorboard")
    rows = metrics(tmp_path / "run")
    assert len(rows) == 2
    for key, tag in (
        ("valid_loss", "loss/valid"),
        ("train_forces_rmse", "forces_rmse/train"),
        ("lr", "lr"),
    ):
        expected = {int(row["epoch"]): row[key] for row in rows}
        assert found[tag] == pytest.approx(expected, rel=1e-6)
    assert "stress_rmse/valid" not in found  # no labels, no curve


def test_wandb_offline_writes_here_and_goes_on_as_the_same_run(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_SILENT", "true")
    section = LoggingSection(wandb="potentials", wandb_mode="offline")
    row = {"epoch": 1.0, "valid_loss": 0.5, "train_loss": 0.4, "valid_stress_rmse": None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with Loggers(section, tmp_path, {"lr": 0.01}) as loggers:
            loggers.epoch(row)
        name = (tmp_path / "wandb-id.txt").read_text()
        with Loggers(section, tmp_path, {"lr": 0.01}, epoch=1) as loggers:
            loggers.epoch(row | {"epoch": 2.0})
        assert (tmp_path / "wandb-id.txt").read_text() == name
    files = list(tmp_path.glob(f"wandb/offline-run-*-{name}/run-{name}.wandb"))
    assert len(files) >= 1
    data = b"".join(file.read_bytes() for file in files)
    assert b"loss/valid" in data and b"loss/train" in data
    assert b"stress_rmse" not in data


def test_what_is_not_installed_is_refused_before_a_run(tmp_path, monkeypatch):
    write_data(tmp_path)
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "tensorboardX" else find(name)
    )
    config = load_config(write_config(tmp_path, logging={"tensorboard": True}))
    with pytest.raises(ValueError, match=r"pip install 'mlpot\[tensorboard\]'"):
        training.train(config)
    assert not (tmp_path / "run").exists()
    check_loggers(LoggingSection())
