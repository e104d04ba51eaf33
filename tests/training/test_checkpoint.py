"""Checkpoints: exact, atomic, checked, the one before kept."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from mlpot.training.checkpoint import (
    Checkpoint,
    previous_path,
    read_checkpoint,
    write_checkpoint,
)


def checkpoint(seed: int = 0) -> Checkpoint:
    rng = np.random.default_rng(seed)
    return Checkpoint(
        arrays={
            "model.w": mx.array(rng.normal(size=(4, 4)), dtype=mx.float64),
            "model.v": mx.array(rng.normal(size=5), dtype=mx.float32),
            "model.half": mx.array(rng.normal(size=5), dtype=mx.bfloat16),
            "model.empty": mx.zeros((0, 3)),
            "optimizer.step": mx.array(7 + seed, dtype=mx.uint64),
        },
        progress={"epoch": 3, "sums": [[0.1 + seed, 1 / 3]], "best_loss": None},
        config={"lr": 0.01},
        potential={"numbers": [1]},
        data="abc",
    )


def same(a: Checkpoint, b: Checkpoint) -> bool:
    arrays = a.arrays.keys() == b.arrays.keys() and all(
        x.dtype == b.arrays[name].dtype
        and x.shape == b.arrays[name].shape
        and bool(mx.array_equal(x, b.arrays[name], stream=mx.cpu))
        for name, x in a.arrays.items()
    )
    rest = ("progress", "config", "potential", "data")
    return arrays and all(getattr(a, name) == getattr(b, name) for name in rest)


def test_round_trip(tmp_path):
    path = tmp_path / "last.safetensors"
    write_checkpoint(path, checkpoint())
    assert same(read_checkpoint(path), checkpoint())
    assert not previous_path(path).exists()


def test_the_one_before_is_kept(tmp_path):
    path = tmp_path / "last.safetensors"
    for seed in range(3):
        write_checkpoint(path, checkpoint(seed))
    assert same(read_checkpoint(path), checkpoint(2))
    assert same(read_checkpoint(previous_path(path)), checkpoint(1))
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "last.previous.safetensors",
        "last.safetensors",
    ]


@pytest.mark.parametrize("damage", ["cut", "bit", "empty", "text"])
def test_damage_is_told(tmp_path, damage):
    path = tmp_path / "last.safetensors"
    write_checkpoint(path, checkpoint(0))
    write_checkpoint(path, checkpoint(1))
    content = bytearray(path.read_bytes())
    if damage == "bit":
        content[-3] ^= 1
    path.write_bytes(
        {"cut": content[:-20], "bit": content, "empty": b"", "text": b"hello world" * 9}[damage]
    )
    with pytest.raises(
        ValueError, match=r"last\.safetensors is damaged(.|\n)*rename it to"
    ) as told:
        read_checkpoint(path)
    assert "last.previous.safetensors" in str(told.value)
    assert same(read_checkpoint(previous_path(path)), checkpoint(0))


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "x.safetensors"
    with pytest.raises(FileNotFoundError, match="does not exist"):
        read_checkpoint(path)
    mx.save_safetensors(str(path), {"a": mx.zeros(3)}, {"format": "mlpot"})
    with pytest.raises(ValueError, match="not a checkpoint of training"):
        read_checkpoint(path)
    mx.save_safetensors(
        str(path), {"a": mx.zeros(3)}, {"format": "mlpot-training", "version": "99"}
    )
    with pytest.raises(ValueError, match="upgrade mlpot"):
        read_checkpoint(path)


def test_a_full_disk_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "last.safetensors"
    write_checkpoint(path, checkpoint(0))

    def full(name, arrays, metadata):
        with open(name, "wb") as file:
            file.write(b"half a fi")
        raise RuntimeError("No space left on device")

    monkeypatch.setattr(mx, "save_safetensors", full)
    with pytest.raises(OSError, match="No space left on device"):
        write_checkpoint(path, checkpoint(1))
    assert same(read_checkpoint(path), checkpoint(0))
    assert [file.name for file in tmp_path.iterdir()] == ["last.safetensors"]
