"""Writing frames to the formats of others."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ase.io.extxyz import write_xyz

from mlpot.files import atomic_write

from .ase_frames import to_atoms
from .frame import Frame
from .hdf5_writer import write_hdf5
from .reading import HDF5_SUFFIXES


def write(
    path: str | os.PathLike[str],
    frames: Iterable[Frame],
    provenance: Mapping[str, Any] | None = None,
    neighbors: float | None = None,
) -> int:
    """Write frames to HDF5 (``.h5``, ``.hdf5``) or extended XYZ (``.xyz``, ``.extxyz``).

    Frames pass one by one; the file appears when all are written, an older one stays otherwise.
    Extended XYZ keeps eight decimals of positions and forces and no provenance.

    Args:
        path: file to be made or replaced; its folder must exist.
        frames: at least one.
        provenance: where the data come from, for HDF5.
        neighbors: Angstrom; HDF5 then holds lists of all pairs closer than this.

    Returns:
        Number of frames written.

    Raises:
        ValueError: no frames, or another suffix.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix in HDF5_SUFFIXES:
        return write_hdf5(path, frames, provenance, neighbors)
    if suffix not in (".xyz", ".extxyz"):
        raise ValueError(
            f"cannot write {path.name}: use .h5 or .hdf5 (mlpot's HDF5), .xyz or .extxyz"
        )
    if neighbors is not None:
        raise ValueError(f"{path.name} cannot hold neighbour lists: write .h5, or leave them out")
    count = 0
    with atomic_write(path, "w") as file:
        for frame in frames:
            write_xyz(file, [to_atoms(frame)])
            count += 1
        if count == 0:
            raise ValueError(f"no frames to write to {path}")
    return count
