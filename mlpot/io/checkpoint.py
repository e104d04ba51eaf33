"""Potentials as files: safetensors with everything that defines them in the metadata."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten, tree_unflatten

from mlpot.config import validate
from mlpot.files import temporary_beside
from mlpot.models import Potential, PotentialConfig

from .locating import locate

#: Version of the file format that `save` writes.
FORMAT_VERSION = 1


def save(
    path: str | os.PathLike[str],
    potential: Potential,
    extra_metadata: Mapping[str, str] | None = None,
) -> None:
    """Write a potential; a file of that name is replaced in one step.

    Weights are stored in float32, everything else (E0, cutoff, sizes) as JSON in the metadata. So
    are the numbers of intervals of the radial tables, so that the same numbers come out again.

    Args:
        path: ends in ``.safetensors``.
        potential: the model.
        extra_metadata: further text, e.g. the data it was trained on.

    Raises:
        ValueError: another file ending.
        OSError: the disk is full or not writable; an older file stays.
    """
    path = Path(path)
    if path.suffix != ".safetensors":
        raise ValueError(f"cannot save to {str(path)!r}: the name must end in .safetensors")
    flat: list[tuple[str, Any]] = tree_flatten(potential.parameters())  # pyright: ignore[reportAssignmentType]
    arrays = {k: v.astype(mx.float32) for k, v in flat}
    config = potential.config.model_dump_json()
    metadata = dict(extra_metadata or {})
    metadata |= {
        "format": "mlpot",
        "format_version": str(FORMAT_VERSION),
        "config": config,
        "radial_intervals": json.dumps(potential.needed_radial_intervals()),
        "sha256": _digest(arrays, config),
    }
    with temporary_beside(path) as temporary:
        try:
            mx.save_safetensors(str(temporary), arrays, metadata)
        except RuntimeError as error:
            raise OSError(f"{path} cannot be written: {error}") from error


def read_file(path: str | os.PathLike[str]) -> tuple[dict[str, mx.array], dict[str, str]]:
    """Arrays and metadata of a file that mlpot wrote, or of a published potential by its name.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: damaged, of another program, or of a newer version.
    """
    path = locate(path)
    try:
        if path.suffix != ".safetensors":
            raise ValueError("the name does not end in .safetensors")
        loaded: Any = mx.load(str(path), return_metadata=True)
        arrays, metadata = loaded
        mx.eval(arrays)
    except (RuntimeError, ValueError) as error:
        raise ValueError(
            f"{str(path)!r} is not a readable safetensors file ({error}); "
            "it may be damaged: use another copy"
        ) from error
    if metadata.get("format") != "mlpot":
        raise ValueError(f"{str(path)!r} holds no mlpot potential (no mlpot metadata in it)")
    version = metadata.get("format_version", "")
    if not version.isdigit() or int(version) > FORMAT_VERSION:
        raise ValueError(
            f"{str(path)!r} has format version {version!r}; this mlpot reads up to "
            f"{FORMAT_VERSION}: update mlpot"
        )
    return arrays, metadata


def load(path: str | os.PathLike[str]) -> Potential:
    """Read a potential that `save` wrote, or a published one that was fetched.

    Args:
        path: the file, or a name in `mlpot.io.PUBLISHED`, e.g. "nequix-mp-1".

    Returns:
        The potential in float32; ``set_dtype(mx.float64)`` changes it.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is damaged, holds something else, or has weights that do not fit or
            are not finite.
    """
    arrays, metadata = read_file(path)
    return build_potential(arrays, metadata, str(path))


def build_potential(arrays: dict[str, mx.array], metadata: dict[str, str], name: str) -> Potential:
    """Potential from the content of a file; ``name`` is for messages.

    Raises:
        ValueError: configuration or weights do not fit, are not finite, or are not those that
            were written.
    """
    try:
        config = json.loads(metadata["config"])
    except (KeyError, json.JSONDecodeError) as error:
        raise ValueError(f"{name!r} has no readable configuration in its metadata") from error
    if isinstance(config, dict) and isinstance(config.get("E0s"), dict):
        config["E0s"] = {int(z): energy for z, energy in config["E0s"].items()}
    potential = Potential(validate(config, PotentialConfig, f"configuration in {name!r}"))
    wanted: dict[str, Any] = dict(tree_flatten(potential.parameters()))
    if set(wanted) != set(arrays):
        missing, extra = sorted(set(wanted) - set(arrays)), sorted(set(arrays) - set(wanted))
        raise ValueError(f"{name!r} lacks weights {missing} or has unknown ones {extra}")
    for key, array in arrays.items():
        if array.shape != wanted[key].shape:
            raise ValueError(
                f"{name!r}: weight {key} has shape {array.shape}, the model needs "
                f"{wanted[key].shape}"
            )
        if not mx.all(mx.isfinite(array)).item():
            raise ValueError(f"{name!r}: weight {key} is not finite; use another copy")
    # Files from before there was a digest have none.
    if "sha256" in metadata and metadata["sha256"] != _digest(arrays, metadata["config"]):
        raise ValueError(
            f"{name!r} is damaged: its weights or configuration are not those that were written; "
            "use another copy"
        )
    potential.update(tree_unflatten(list(arrays.items())))
    mx.eval(potential.parameters())
    if "radial_intervals" in metadata:
        _set_radial_intervals(potential, metadata["radial_intervals"], name)
    return potential


def _set_radial_intervals(potential: Potential, text: str, name: str) -> None:
    try:
        potential.set_radial_intervals([int(n) for n in json.loads(text)])
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name!r}: radial_intervals in the metadata is damaged: {error}"
        ) from error


def _digest(arrays: dict[str, mx.array], config: str) -> str:
    digest = hashlib.sha256(config.encode())
    for key in sorted(arrays):
        digest.update(f"{key} {arrays[key].shape}".encode())
        digest.update(np.array(arrays[key]).tobytes())
    return digest.hexdigest()
