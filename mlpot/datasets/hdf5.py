"""Reading mlpot's own file of frames: random access, checked."""

from __future__ import annotations

import hashlib
import json
import operator
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, overload

import h5py
import numpy as np

from .frame import Frame
from .hdf5_layout import COLUMNS, ENERGY, FORCES, FORMAT, STRESS, VERSION

_BLOCK_FRAMES = 1024


class HDF5Dataset(Sequence[Frame]):
    """A sequence of frames in a file; only what is asked for is read.

    Args:
        path: a file written by `HDF5Writer`.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: not such a file, damaged, or written by a newer mlpot.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(path)
        if not self.path.is_file():
            raise FileNotFoundError(f"there is no file {str(path)!r}")
        try:
            self._file: Any = h5py.File(self.path, "r")
        except OSError as error:
            raise ValueError(f"{self.path}: not a readable HDF5 file: {error}") from None
        try:
            self._open()
        except BaseException:
            self._file.close()
            raise

    def _open(self) -> None:
        attributes = self._file.attrs
        if attributes.get("format") != FORMAT:
            raise ValueError(
                f"{self.path} is HDF5 but not a data set of mlpot; "
                "convert the original with `mlpot convert`"
            )
        if int(attributes["version"]) > VERSION:
            raise ValueError(
                f"{self.path} has format version {attributes['version']}, this mlpot reads up to "
                f"{VERSION}; upgrade mlpot"
            )
        try:
            self.provenance: dict[str, Any] = json.loads(attributes["provenance"])
            self._columns = {column.name: self._file[column.name] for column in COLUMNS}
            self._types = [name.decode() for name in self._file["config_types"][:]]
            self._ptr = self._columns["atom_ptr"][:]
            self._n_frames = int(attributes["n_frames"])
            n_atoms = int(attributes["n_atoms"])
        except (OSError, KeyError, ValueError) as error:
            raise self._damaged(error) from None
        for column in COLUMNS:
            expected = n_atoms if column.per_atom else self._n_frames
            expected += column.name == "atom_ptr"
            if len(self._columns[column.name]) != expected:
                raise self._damaged(f"{column.name} does not have {expected} rows")

    def _damaged(self, error) -> ValueError:
        return ValueError(f"{self.path}: the file is damaged: {error}")

    def __len__(self) -> int:
        return self._n_frames

    @property
    def atom_counts(self) -> np.ndarray:
        """Number of atoms of each frame, (n_frames,)."""
        return np.diff(self._ptr)

    @overload
    def __getitem__(self, index: int) -> Frame: ...
    @overload
    def __getitem__(self, index: slice) -> list[Frame]: ...
    def __getitem__(self, index):
        """A frame, or the list of a slice; IndexError outside."""
        if isinstance(index, slice):
            start, stop, step = index.indices(self._n_frames)
            if step == 1:
                return self._block(start, max(start, stop))
            return [self[i] for i in range(start, stop, step)]
        number = operator.index(index)
        number += self._n_frames if number < 0 else 0
        if not 0 <= number < self._n_frames:
            raise IndexError(f"frame {index} of {self._n_frames} in {self.path}")
        return self._block(number, number + 1)[0]

    def __iter__(self) -> Iterator[Frame]:
        for start in range(0, self._n_frames, _BLOCK_FRAMES):
            yield from self._block(start, min(start + _BLOCK_FRAMES, self._n_frames))

    def _block(self, start: int, stop: int) -> list[Frame]:
        first, last = int(self._ptr[start]), int(self._ptr[stop])
        data = {}
        for column in COLUMNS:
            rows = slice(first, last) if column.per_atom else slice(start, stop)
            try:
                data[column.name] = self._columns[column.name][rows]
            except OSError as error:
                raise self._damaged(f"{column.name}: {error}") from None
        frames = []
        for row, index in enumerate(range(start, stop)):
            atoms = slice(int(self._ptr[index]) - first, int(self._ptr[index + 1]) - first)
            known = data["frames/labels"][row]
            weights = data["frames/weights"][row]
            frames.append(
                Frame(
                    numbers=data["atoms/numbers"][atoms],
                    positions=data["atoms/positions"][atoms],
                    cell=data["frames/cell"][row],
                    pbc=data["frames/pbc"][row],
                    energy=float(data["frames/energy"][row]) if known & ENERGY else None,
                    forces=data["atoms/forces"][atoms] if known & FORCES else None,
                    stress=data["frames/stress"][row] if known & STRESS else None,
                    config_type=self._types[data["frames/config_type"][row]],
                    weight=weights[0],
                    energy_weight=weights[1],
                    forces_weight=weights[2],
                    stress_weight=weights[3],
                    source=f"{self.path}:{index}",
                )
            )
        return frames

    def verify(self) -> None:
        """Read the whole file and compare every array with its digest.

        Raises:
            ValueError: an array differs from what was written, naming it.
        """
        digests = json.loads(self._file.attrs["sha256"])
        for column in COLUMNS:
            stored, digest = self._columns[column.name], hashlib.sha256()
            try:
                for start in range(0, len(stored), 64 * column.chunk):
                    digest.update(stored[start : start + 64 * column.chunk].tobytes())
            except OSError as error:
                raise self._damaged(f"{column.name}: {error}") from None
            if digest.hexdigest() != digests.get(column.name):
                raise self._damaged(f"the digest of {column.name} is not the stored one")

    def close(self) -> None:
        """Close the file; frames that were read stay."""
        self._file.close()

    def __enter__(self) -> HDF5Dataset:
        return self

    def __exit__(self, *_) -> None:
        self.close()
