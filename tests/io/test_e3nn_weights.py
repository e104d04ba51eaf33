"""Weights by e3nn's names."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from mlpot import o3
from mlpot.io import load_e3nn_weights


def state(module) -> dict[str, np.ndarray]:
    """As e3nn's state dict: with a buffer, and a weight without entries."""
    weight = np.arange(module.weight.size, dtype=np.float64) / 7
    return {"weight": weight, "output_mask": np.ones(3), "bias": np.zeros(0)}


@pytest.mark.parametrize("ending", [".npz", ".safetensors", None])
def test_weights_are_taken_over(tmp_path, ending):
    module = o3.Linear("2x0e+1x1o", "3x0e+1x1o")
    module.set_dtype(mx.float64)
    source = given = state(module)
    if ending == ".npz":
        source = tmp_path / "weights.npz"
        np.savez(source, **given)
    elif ending:
        source = tmp_path / "weights.safetensors"
        arrays = {k: mx.array(v.astype(np.float32)) for k, v in given.items() if v.size}
        mx.save_safetensors(str(source), arrays)
    load_e3nn_weights(module, source)
    tolerance = 1e-7 if ending == ".safetensors" else 0
    assert module.weight.dtype == mx.float64
    assert np.abs(np.array(module.weight) - given["weight"]).max() <= tolerance


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"other.weight": np.ones(3)}, r"unknown \['other.weight'\]"),
        ({"weight": np.ones(2)}, r"weight weight has the shape \(2,\)"),
        ({"weight": np.full(7, np.nan)}, "not finite"),
    ],
)
def test_weights_that_do_not_fit_are_refused(change, message):
    module = o3.Linear("2x0e+1x1o", "3x0e+1x1o")
    before = np.array(module.weight)
    with pytest.raises(ValueError, match=message):
        load_e3nn_weights(module, state(module) | change)
    assert np.array_equal(np.array(module.weight), before)


def test_unreadable_files_are_refused(tmp_path):
    module = o3.Linear("0e", "0e")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        load_e3nn_weights(module, tmp_path / "nothing.npz")
    for name in ("broken.npz", "broken.safetensors", "weights.pt"):
        path = tmp_path / name
        path.write_bytes(b"not weights")
        with pytest.raises(ValueError, match=r"read"):
            load_e3nn_weights(module, path)
