"""Small training runs for tests."""

from __future__ import annotations

from pathlib import Path

import yaml
from morse_frames import isolated_atoms, morse_frames

from mlpot import datasets

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
