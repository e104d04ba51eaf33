"""Small training runs for tests."""

from __future__ import annotations

from pathlib import Path

import mlx.core as mx
import yaml
from morse_frames import E0, isolated_atoms, morse_frames

from mlpot import datasets
from mlpot.config import validate
from mlpot.models import Potential, PotentialConfig
from mlpot.training import TrainConfig

SMALL = {
    "train_file": "train.h5",
    "r_max": 4.0,
    "model": {"channels": 4, "layers": 1, "lmax": 1, "number_of_basis": 6, "radial_neurons": [8]},
    "batch_size": 4,
    "max_num_epochs": 2,
    "valid_fraction": 0.25,
    "device": "cpu",
}


def write_data(folder: Path, n_frames: int = 16, **options) -> None:
    """Write ``train.h5`` with frames and isolated atoms."""
    datasets.write(folder / "train.h5", [*morse_frames(n_frames, **options), *isolated_atoms()])


def write_config(folder: Path, name: str = "config.yaml", **changes) -> Path:
    """Write a configuration; a change to None leaves the key out."""
    keys = {key: value for key, value in (SMALL | changes).items() if value is not None}
    keys.setdefault("out", str(folder / "run"))
    path = folder / name
    path.write_text(yaml.safe_dump(keys), encoding="utf-8")
    return path


def make_potential(model: dict, seed: int = 3) -> Potential:
    """An untrained potential in float64 for the frames of these runs."""
    config = validate(SMALL | {"model": model}, TrainConfig, "test")
    mx.random.seed(seed)
    potential = Potential(
        PotentialConfig(numbers=[2, 10], cutoff=4.0, model=config.model, E0s=E0, scale=0.5)
    )
    potential.set_dtype(mx.float64)
    return potential
