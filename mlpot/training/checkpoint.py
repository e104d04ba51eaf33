"""Checkpoints from which a run goes on exactly."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from mlpot.files import temporary_beside

from .parallel import Ranks

FORMAT = "mlpot-training"
VERSION = 1


@dataclass
class Checkpoint:
    """The state of a run.

    Args:
        arrays: parameters, optimiser state, running average, random state.
        progress: where the run stands, plain values.
        config: of the run, plain values.
        potential: what else makes the model, plain values.
        data: digest of the training data.
    """

    arrays: dict[str, mx.array]
    progress: dict
    config: dict
    potential: dict
    data: str


def previous_path(path: Path) -> Path:
    """Where the checkpoint before this one is kept."""
    return path.with_name(f"{path.stem}.previous{path.suffix}")


def write_checkpoint(path: str | os.PathLike[str], checkpoint: Checkpoint) -> None:
    """Write a checkpoint in one step; the one that stood there is kept as ``NAME.previous``.

    Args:
        path: ``.safetensors`` file in an existing folder.
        checkpoint: what to write.

    Raises:
        OSError: the disk is full or not writable; what stood there stays.
    """
    path = Path(path)
    # safetensors of MLX has no float64: the bits are stored as integers.
    doubles = [name for name, array in checkpoint.arrays.items() if array.dtype == mx.float64]
    arrays = {
        name: array.view(mx.uint64) if array.dtype == mx.float64 else array
        for name, array in checkpoint.arrays.items()
    }
    metadata = {
        "format": FORMAT,
        "version": str(VERSION),
        "float64": json.dumps(doubles),
        "sha256": _digest(arrays),
        "progress": json.dumps(checkpoint.progress),
        "config": json.dumps(checkpoint.config),
        "potential": json.dumps(checkpoint.potential),
        "data": checkpoint.data,
    }
    with temporary_beside(path) as temporary:
        try:
            mx.save_safetensors(str(temporary), arrays, metadata)
        except RuntimeError as error:
            raise OSError(f"{path} cannot be written: {error}") from error
        if path.exists():
            _keep(path, previous_path(path))


def read_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """Read a checkpoint and check it.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: not a checkpoint of training, damaged, or made by a newer mlpot.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"checkpoint {str(path)!r} does not exist")
    advice = ""
    if previous_path(path).is_file():
        advice = (
            f"; the checkpoint before it is {previous_path(path).name}: "
            f"rename it to {path.name} to go on from there"
        )
    try:
        with mx.stream(mx.cpu):
            arrays, metadata = _load(path)
            mx.eval(arrays)
    except (RuntimeError, ValueError, OSError) as error:
        raise ValueError(f"{path} is damaged: {error}{advice}") from error
    if metadata.get("format") != FORMAT:
        raise ValueError(f"{path} is not a checkpoint of training (last.safetensors of a run)")
    if int(metadata["version"]) > VERSION:
        raise ValueError(
            f"{path} has format version {metadata['version']}, this mlpot reads up to {VERSION}; "
            "upgrade mlpot"
        )
    if metadata["sha256"] != _digest(arrays):
        raise ValueError(f"{path} is damaged: its numbers are not those that were written{advice}")
    with mx.stream(mx.cpu):
        for name in json.loads(metadata["float64"]):
            arrays[name] = arrays[name].view(mx.float64)
    return Checkpoint(
        arrays=arrays,
        progress=json.loads(metadata["progress"]),
        config=json.loads(metadata["config"]),
        potential=json.loads(metadata["potential"]),
        data=metadata["data"],
    )


def share_checkpoint(path: str | os.PathLike[str], ranks: Ranks) -> Checkpoint:
    """Read a checkpoint where rank 0 has it, for all: others need not see the folder.

    Raises:
        FileNotFoundError: rank 0 finds no such file.
        ValueError: see `read_checkpoint`; for all ranks where it is for one.
    """
    if ranks.size == 1:
        return read_checkpoint(path)
    data: bytes | None = None
    with ranks:
        if ranks.first:
            read_checkpoint(path)
            data = Path(path).read_bytes()
    data = ranks.share_bytes(data)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / Path(path).name
        copy.write_bytes(data)
        return read_checkpoint(copy)


def _load(path: Path) -> tuple[dict[str, mx.array], dict[str, str]]:
    loaded: Any = mx.load(str(path), return_metadata=True)
    return loaded


def _digest(arrays: dict[str, mx.array]) -> str:
    digest = hashlib.sha256()
    with mx.stream(mx.cpu):
        for name in sorted(arrays):
            array = arrays[name]
            digest.update(f"{name} {array.shape} {array.dtype}".encode())
            digest.update(np.array(array.reshape(-1).view(mx.uint8)).tobytes())
    return digest.hexdigest()


def _keep(path: Path, previous: Path) -> None:
    """Make ``previous`` a second name of ``path``, so that at every moment both are whole."""
    with temporary_beside(previous) as temporary:
        try:
            os.link(path, temporary)
        except OSError:  # no hard links on this file system
            shutil.copyfile(path, temporary)
