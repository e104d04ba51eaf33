"""Weights of other programs give the outputs of these programs."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from reference_outputs import FIXTURES, SHARED, check_outputs

from mlpot import io

SMALL = ["sevennet_even.pth", "sevennet_parity.pth", "nequix_small.nqx"]
PUBLISHED = {
    "nequix/nequix-mp-1.nqx": "reference_outputs/nequix-mp-1.json",
    "nequip_amAl2O3/state_dict.npz": "nequip_amAl2O3/reference_outputs.json",
}


@pytest.mark.parametrize("dtype", [mx.float32, mx.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("name", SMALL)
def test_random_models_of_other_programs(name, dtype):
    path = FIXTURES / name
    check_outputs(io.import_potential(path), path.with_suffix(".json"), dtype)


@pytest.mark.skipif(not SHARED.is_dir(), reason="published weights are not beside the repository")
@pytest.mark.parametrize("name", PUBLISHED)
def test_published_models(name):
    potential = io.import_potential(SHARED / name)
    check_outputs(potential, SHARED / PUBLISHED[name])
    check_outputs(potential, SHARED / PUBLISHED[name], mx.float64)


@pytest.mark.skipif(not SHARED.is_dir(), reason="published weights are not beside the repository")
def test_sevennet_0():
    import json

    from mlpot.io.sevennet import from_sevennet

    config = json.loads((SHARED / "sevennet/sevennet-0_11Jul2024.config.json").read_text())
    with np.load(SHARED / "sevennet/sevennet-0_11Jul2024.npz") as arrays:
        potential = from_sevennet(config, dict(arrays), "SevenNet-0")
    reference = SHARED / "reference_outputs/sevennet-0_11Jul2024.json"
    check_outputs(potential, reference, centred=True)
    check_outputs(potential, reference, mx.float64)
    assert not potential.mirror_symmetric


def test_imported_potentials_are_saved_as_all_others(tmp_path):
    potential = io.import_potential(FIXTURES / "sevennet_parity.pth")
    io.save(tmp_path / "model.safetensors", potential)
    again = io.load(tmp_path / "model.safetensors")
    assert again.config == potential.config
    check_outputs(again, FIXTURES / "sevennet_parity.json")
