"""Configuration: keys, limits, unknown keys, files, table and schema."""

from __future__ import annotations

from pathlib import Path

import pytest
from training_runs import write_config

from mlpot.config import validate
from mlpot.training import TrainConfig, load_config
from mlpot.training.keys import key_lines


def check(**keys) -> TrainConfig:
    return validate({"train_file": "a.xyz", "r_max": 5.0} | keys, TrainConfig, "test")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"forces_wieght": 3}, "unknown key 'forces_wieght': did you mean 'forces_weight'"),
        ({"model": {"chanels": 3}}, "unknown key 'model.chanels': did you mean 'channels'"),
        ({"optimizer": {"beta_1": 0.8}}, "unknown key 'optimizer.beta_1': did you mean 'beta1'"),
        ({"scheduler": {"warmup": 3}}, "unknown key 'scheduler.warmup': did you mean"),
        ({"loss": {"delt": 3}}, "unknown key 'loss.delt': did you mean 'delta'"),
        (
            {"keys": {"energie_key": "E"}},
            "unknown key 'keys.energie_key': did you mean 'energy_key",
        ),
        ({"units": {"energy": "eV"}}, "unknown key 'units.energy': did you mean 'energy_unit'"),
        ({"E0s": {"Hx": 1.0}}, "unknown element 'Hx'"),
        ({"E0s": "isolatd"}, "E0s"),
        ({"lr": -1}, "lr: .*greater than 0"),
        ({"lr": float("nan")}, "lr: .*finite"),
        ({"dtype": "float64", "device": "gpu"}, "float64 runs on the CPU only"),
        ({"valid_file": "v.xyz", "valid_fraction": 0.2}, "exclude each other"),
        ({"energy_weight": 0, "forces_weight": 0, "stress_weight": 0}, "are 0 in epoch 1"),
        (
            {
                "stress_weight": 0,
                "stages": [{"from_epoch": 5, "energy_weight": 0, "forces_weight": 0}],
            },
            "are 0 in epoch 5",
        ),
        ({"stages": [{"from_epoch": 9}, {"from_epoch": 5}]}, r"epochs \[9, 5\]: put them in order"),
        ({"stages": [{"from_epoch": 1}]}, "stages.0.from_epoch"),
        ({"stages": [{"from_epoch": 4, "force_weight": 1}]}, "did you mean 'forces_weight'"),
        (
            {"optimizer": {"name": "schedule_free"}, "scheduler": {"name": "cosine"}},
            "takes the place of a schedule",
        ),
        ({"train_file": []}, "train_file"),
    ],
)
def test_mistakes_are_named(keys, message):
    with pytest.raises(ValueError, match=message):
        check(**keys)


def test_all_mistakes_are_told_at_once():
    with pytest.raises(ValueError, match="3 problems") as caught:
        check(lr=0, batch_size=0, rmax=3)
    assert all(word in str(caught.value) for word in ("lr:", "batch_size:", "'r_max'"))


def test_reference_energies_by_symbol_and_number():
    config = check(E0s={"H": -13.6, "8": -432.0})
    assert config.E0s == {1: -13.6, 8: -432.0}
    assert config.plain()["E0s"] == {"H": -13.6, "O": -432.0}


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"E0s": {"H": -1.0}},
        {"valid_file": ["b.xyz"]},
        {"model": {"channels": 7}},
        {"optimizer": {"name": "schedule_free"}, "stages": [{"from_epoch": 4, "lr": 0.1}]},
    ],
)
def test_plain_values_make_the_same_configuration(keys):
    config = check(**keys)
    again = validate(config.plain(), TrainConfig, "test")
    assert again.plain() == config.plain()
    assert again == config


def test_stages_change_what_they_name():
    stages = [
        {"from_epoch": 3, "energy_weight": 50.0},
        {"from_epoch": 8, "forces_weight": 2.0, "hvps_weight": 0.0, "lr": 0.001},
    ]
    config = check(energy_weight=1.0, forces_weight=10.0, stages=stages)
    known = {epoch: tuple(config.weights(epoch).values()) for epoch in (1, 2, 3, 7, 8, None)}
    assert known[1] == known[2] == (1.0, 10.0, 100.0, 0.1)
    assert known[3] == known[7] == (50.0, 10.0, 100.0, 0.1)
    assert known[8] == known[None] == (50.0, 2.0, 100.0, 0.0)
    assert config.constant_rates() == {8: 0.001}
    assert config.counts("hvps")
    assert not check(hvps_weight=0.0).counts("hvps")


def test_data_files_lie_beside_the_configuration(tmp_path, monkeypatch):
    monkeypatch.chdir("/")
    path = write_config(tmp_path, "argon.yaml", valid_fraction=None, valid_file=["v.xyz", "/w.xyz"])
    config = load_config(path)
    assert config.train_file == [str(tmp_path / "train.h5")]
    assert config.valid_file == [str(tmp_path / "v.xyz"), "/w.xyz"]
    assert config.out == str(tmp_path / "run")
    path.write_text("{train_file: a.xyz, r_max: 4}", encoding="utf-8")
    assert load_config(path).out == str(Path("runs") / "argon")


def test_every_key_is_documented():
    lines = {line.name: line for line in key_lines(TrainConfig)}
    assert all(line.description for line in lines.values())
    assert lines["r_max"].default == "required"
    assert lines["r_max"].unit == "Angstrom"
    assert lines["lr"].type == "number"
    assert lines["scheduler.name"].type == "cosine | plateau | constant"
    assert lines["patience"].type == "integer or null"
    assert lines["model.channels"].default == "32"
    names = "E0s batch_size device dtype ema_decay energy_weight forces_weight keys.energy_key lr "
    names += "max_num_epochs seed stress_weight test_file train_file units.length_unit valid_file"
    assert set(names.split()) <= lines.keys()


def test_schema_names_what_is_required_and_refuses_the_rest():
    schema = TrainConfig.model_json_schema()
    assert schema["required"] == ["train_file", "r_max"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["lr"]["default"] == 0.01


@pytest.mark.parametrize(("text", "value"), [("off", "off"), ("on", "on"), ("auto", "auto")])
def test_words_that_yaml_takes_for_booleans(tmp_path, text, value):
    path = tmp_path / "config.yaml"
    path.write_text(f"train_file: train.h5\nr_max: 4.0\nrecord_steps: {text}\n")
    assert load_config(path).record_steps == value
