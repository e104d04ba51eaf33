from __future__ import annotations

import json

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten

import mlpot
from mlpot import io
from mlpot.models import Potential, PotentialConfig, V2106Config


@pytest.fixture
def potential():
    mx.random.seed(0)
    model = V2106Config(channels=2, lmax=1, layers=1)
    E0s = {1: -13.600000000000001, 8: -2040.1234567890123}
    return Potential(
        PotentialConfig(numbers=[1, 8], cutoff=3.1, model=model, E0s=E0s, scale=0.1 + 0.2)
    )


def rewritten(path, weights=None, config=None, **metadata):
    """Change parts of a file and write it again."""
    arrays, old = mx.load(str(path), return_metadata=True)
    mx.eval(arrays)
    if config is not None:
        metadata["config"] = json.dumps(json.loads(old["config"]) | config)
    mx.save_safetensors(str(path), {**arrays, **(weights or {})}, {**old, **metadata})


def test_round_trip_is_exact(potential, tmp_path):
    path = tmp_path / "model.safetensors"
    mlpot.save(path, potential)
    again = mlpot.load(path)
    assert again.config == potential.config
    before, after = (dict(tree_flatten(p.parameters())) for p in (potential, again))
    assert list(before) == list(after)
    for key, array in before.items():
        assert np.array(array).tobytes() == np.array(after[key]).tobytes()
    assert again.dtype == mx.float32
    mlpot.save(tmp_path / "again.safetensors", again)
    assert (tmp_path / "again.safetensors").read_bytes() == path.read_bytes()


def test_metadata_says_what_the_file_is(potential, tmp_path):
    path = tmp_path / "model.safetensors"
    io.save(path, potential, {"data": "water"})
    arrays, metadata = io.read_file(path)
    assert metadata["format"] == "mlpot"
    assert metadata["format_version"] == str(io.FORMAT_VERSION)
    assert metadata["data"] == "water"
    config = json.loads(metadata["config"])
    assert config["numbers"] == [1, 8]
    assert config["E0s"]["8"] == -2040.1234567890123
    assert all(a.dtype == mx.float32 for a in arrays.values())


def test_float64_potentials_are_stored_in_float32(potential, tmp_path):
    path = tmp_path / "model.safetensors"
    before = {k: np.array(v) for k, v in tree_flatten(potential.parameters())}
    potential.set_dtype(mx.float64)
    with mx.stream(mx.cpu):
        io.save(path, potential)
    after = dict(tree_flatten(io.load(path).parameters()))
    assert all(np.array_equal(before[k], np.array(after[k])) for k in before)


@pytest.mark.parametrize("damage", ["truncated", "header", "text", "empty"])
def test_damaged_files_are_refused(potential, tmp_path, damage):
    path = tmp_path / "model.safetensors"
    io.save(path, potential)
    data = path.read_bytes()
    changed = {
        "truncated": data[: len(data) // 2],
        "header": b"\xff" * 40 + data[40:],
        "text": b"not a model at all",
        "empty": b"",
    }
    path.write_bytes(changed[damage])
    with pytest.raises(ValueError, match=r"model\.safetensors.*may be damaged"):
        io.load(path)


def test_foreign_and_missing_files_are_refused(potential, tmp_path):
    foreign = tmp_path / "foreign.safetensors"
    mx.save_safetensors(str(foreign), {"a": mx.zeros(3)})
    with pytest.raises(ValueError, match="holds no mlpot potential"):
        io.load(foreign)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        io.load(tmp_path / "nothing.safetensors")
    other = tmp_path / "model.npz"
    other.write_bytes(b"")
    with pytest.raises(ValueError, match=r"end in \.safetensors"):
        io.load(other)
    with pytest.raises(ValueError, match=r"must end in \.safetensors"):
        io.save(tmp_path / "model.pt", potential)


@pytest.mark.parametrize("version", ["2", "999", "x", ""])
def test_newer_versions_are_refused(potential, tmp_path, version):
    path = tmp_path / "model.safetensors"
    io.save(path, potential)
    rewritten(path, format_version=version)
    with pytest.raises(ValueError, match="update mlpot"):
        io.load(path)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_refused(potential, tmp_path, bad):
    path = tmp_path / "model.safetensors"
    io.save(path, potential)
    key, array = tree_flatten(potential.parameters())[0]
    rewritten(path, {key: mx.full(array.shape, bad)})
    with pytest.raises(ValueError, match=f"{key} is not finite"):
        io.load(path)


def test_a_changed_number_is_noticed(potential, tmp_path):
    path = tmp_path / "model.safetensors"
    io.save(path, potential)
    key, array = tree_flatten(potential.parameters())[0]
    rewritten(path, {key: array * 1.001})
    with pytest.raises(ValueError, match="not those that were written"):
        io.load(path)
    io.save(path, potential)
    rewritten(path, config={"scale": 0.5})
    with pytest.raises(ValueError, match="not those that were written"):
        io.load(path)
    io.save(path, potential)
    arrays, metadata = io.read_file(path)
    del metadata["sha256"]
    assert io.build_potential(arrays, metadata, "old").config == potential.config


def test_weights_that_do_not_fit_are_refused(potential, tmp_path):
    path = tmp_path / "model.safetensors"
    io.save(path, potential)
    key = tree_flatten(potential.parameters())[0][0]
    rewritten(path, {key: mx.zeros((7, 7))})
    with pytest.raises(ValueError, match=r"has shape .*7, 7"):
        io.load(path)
    io.save(path, potential)
    rewritten(path, {"surplus": mx.zeros(1)})
    with pytest.raises(ValueError, match="surplus"):
        io.load(path)


def test_configuration_is_checked(potential, tmp_path):
    path = tmp_path / "model.safetensors"
    io.save(path, potential)
    rewritten(path, config={"cutof": 3.0})
    with pytest.raises(ValueError, match="cutof"):
        io.load(path)
    for text in ("{", "[]", "null"):
        io.save(path, potential)
        arrays, metadata = io.read_file(path)
        with pytest.raises(ValueError, match="configuration"):
            io.build_potential(arrays, metadata | {"config": text}, "model")


def test_old_file_is_kept_when_writing_fails(potential, tmp_path, monkeypatch):
    path = tmp_path / "model.safetensors"
    io.save(path, potential)
    data = path.read_bytes()

    def broken(name, *_):
        with open(name, "wb") as file:
            file.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(mx, "save_safetensors", broken)
    with pytest.raises(OSError, match="disk full"):
        io.save(path, potential)
    assert path.read_bytes() == data
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_numbers_of_intervals_of_radial_tables_are_kept(potential, tmp_path):
    path = tmp_path / "model.safetensors"
    io.save(path, potential)
    needed = potential.needed_radial_intervals()
    assert all(n > 0 for n in needed)
    assert io.load(path).radial_intervals == needed
    finer = [2 * n for n in needed]
    potential.set_radial_intervals(finer)
    io.save(path, potential)
    again = io.load(path)
    assert again.radial_intervals == again.needed_radial_intervals() == finer


@pytest.mark.parametrize("text", ["[64]", "[64, -1]", "many", '["a", "b"]', "3"])
def test_damaged_numbers_of_intervals_are_refused(potential, tmp_path, text):
    path = tmp_path / "model.safetensors"
    io.save(path, potential)
    rewritten(path, radial_intervals=text)
    with pytest.raises(ValueError, match=r"radial_intervals in the metadata is damaged"):
        io.load(path)
