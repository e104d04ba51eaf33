"""PyTorch's files without PyTorch: tensors and plain containers, nothing else."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from .torch_constructors import STORAGES, Name, PickleError
from .torch_pickle import load_plain


def read_torch(path: str | os.PathLike[str]) -> Any:
    """What ``torch.save`` wrote, with tensors as numpy arrays.

    The file is a zip archive of one pickle and the raw content of every tensor. The pickle is not
    run: see `mlpot.io.torch_pickle`. Nothing larger than the file itself is allocated.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: no such file, damaged, or one that asks for more than weights need.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"model file {str(path)!r} does not exist")
    try:
        with zipfile.ZipFile(path) as archive:
            return _read(archive, path.stat().st_size)
    except PickleError as error:
        raise ValueError(f"{str(path)!r} was not read: {error}") from error
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, OSError) as error:
        raise ValueError(
            f"{str(path)!r} is not a readable file of PyTorch (a zip archive since version 1.6): "
            f"{error}; use another copy"
        ) from error


def _read(archive: zipfile.ZipFile, size: int) -> Any:
    entries = {entry.filename: entry for entry in archive.infolist()}
    for entry in entries.values():
        if entry.compress_type != zipfile.ZIP_STORED or entry.file_size > size:
            raise PickleError(
                f"the entry {entry.filename!r} is compressed or larger than the file, which "
                "PyTorch does not do"
            )
    pickles = [name for name in entries if name.rpartition("/")[2] == "data.pkl"]
    if len(pickles) != 1:
        raise PickleError("it does not hold exactly one data.pkl")
    folder = pickles[0].removesuffix("data.pkl")
    if any(name.startswith(f"{folder}code/") for name in entries):
        raise PickleError(
            "it is a TorchScript program, which is not run: export its tensors to .npz with torch"
        )
    order = f"{folder}byteorder"
    if order in entries and archive.read(order).strip() != b"little":
        raise PickleError("its numbers are big-endian")
    loaded: dict[str, np.ndarray] = {}

    def storage(identifier: tuple) -> np.ndarray:
        _, kind, key, _, count = identifier
        if not isinstance(kind, Name) or kind.name not in STORAGES:
            raise PickleError(f"a storage has the type {kind}")
        name = f"{folder}data/{key}"
        if name not in entries:
            raise PickleError(f"the content of storage {key!r} is missing")
        dtype = np.dtype(STORAGES[kind.name])
        if entries[name].file_size < int(count) * dtype.itemsize:
            raise PickleError(
                f"storage {key!r} declares {count} numbers of {dtype}, more than its "
                f"{entries[name].file_size} bytes"
            )
        if name not in loaded:
            loaded[name] = np.frombuffer(archive.read(name), dtype=dtype)
        return loaded[name][: int(count)]

    return load_plain(archive.read(pickles[0]), storage)
