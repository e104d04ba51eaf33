"""``.npz`` files from anywhere: sizes are checked before anything is allocated."""

from __future__ import annotations

import math
import os
import zipfile
from pathlib import Path

import numpy as np


def read_npz(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """All arrays of an ``.npz`` file; no pickles, nothing larger than the file claims to hold.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: damaged, or with arrays that are no plain numbers or text.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"model file {str(path)!r} does not exist")
    found = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for entry in archive.infolist():
                with archive.open(entry) as stream:
                    found[entry.filename.removesuffix(".npy")] = _array(stream, entry.file_size)
    except (zipfile.BadZipFile, EOFError, OSError, NotImplementedError, ValueError) as error:
        raise ValueError(f"{str(path)!r} is not a readable npz file: {error}") from error
    return found


def _array(stream, size: int) -> np.ndarray:
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    elif version == (2, 0):
        shape, fortran, dtype = np.lib.format.read_array_header_2_0(stream)
    else:
        raise ValueError(f"an array has the version {version}")
    if dtype.hasobject or dtype.kind not in "fiubU":
        raise ValueError(f"an array has the dtype {dtype}; only plain numbers and text are read")
    wanted = math.prod(shape) * dtype.itemsize
    if wanted > size:
        raise ValueError(f"an array of {size} bytes claims the shape {shape}")
    content = stream.read(wanted)
    if len(content) != wanted:
        raise ValueError(f"an array of the shape {shape} ends too early")
    return np.frombuffer(content, dtype=dtype).reshape(shape, order="F" if fortran else "C")
