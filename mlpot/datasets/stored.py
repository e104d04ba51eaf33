"""Frames that stay in their files: any selection of them, read when they are used."""

from __future__ import annotations

import hashlib
import operator
import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import overload

import numpy as np

from mlpot.graph.host import HostGraph

from .frame import Frame
from .hdf5 import HDF5Dataset
from .table import FrameTable

_BLOCK = 1024  # frames read at once where they lie together


class StoredFrames(Sequence[Frame]):
    """A selection of the frames of mlpot's HDF5 files, in any order, without holding them.

    Args:
        stores: open files, or their names.
        rows: (n,) which frames, counted through all files; all of them by default.

    Raises:
        FileNotFoundError: a file does not exist.
        ValueError: a file is not one of mlpot's, or damaged.
    """

    def __init__(
        self,
        stores: Iterable[HDF5Dataset | str | os.PathLike[str]],
        rows: np.ndarray | None = None,
    ) -> None:
        self.stores = [s if isinstance(s, HDF5Dataset) else HDF5Dataset(s) for s in stores]
        self._starts = np.cumsum([0] + [len(store) for store in self.stores])
        total = int(self._starts[-1])
        self.rows = np.arange(total) if rows is None else np.asarray(rows, dtype=np.int64)
        if len(self.rows) and not 0 <= self.rows.min() <= self.rows.max() < total:
            raise ValueError(f"there are {total} frames; rows names others")

    def __len__(self) -> int:
        return len(self.rows)

    def select(self, rows: Iterable[int] | np.ndarray) -> StoredFrames:
        """A selection of this one, (n,) indices or a mask."""
        return StoredFrames(self.stores, self.rows[np.asarray(rows)])

    @overload
    def __getitem__(self, index: int) -> Frame: ...
    @overload
    def __getitem__(self, index: slice) -> list[Frame]: ...
    def __getitem__(self, index):
        """A frame, or the list of a slice; IndexError outside."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        store, number = self._place(self.rows[operator.index(index)])
        return store[number]

    def __iter__(self) -> Iterator[Frame]:
        """All frames; those that lie together are read together."""
        row = 0
        while row < len(self.rows):
            store, first = self._place(self.rows[row])
            part = self.rows[row : row + _BLOCK] - self.rows[row] + first
            # As far as they ascend within one file without many others between them.
            good = (np.diff(part, prepend=first - 1) > 0) & (part < min(len(store), first + _BLOCK))
            count = len(part) if good.all() else int(np.argmin(good))
            part = part[:count]
            block = store[first : int(part[-1]) + 1]
            yield from (block[int(number) - first] for number in part)
            row += count

    def host_graph(self, index: int, frame: Frame, cutoff: float) -> HostGraph | None:
        """The graph of a frame from neighbour lists in the file; None where there are none.

        Args:
            index: of the frame in this selection.
            frame: the frame itself.
            cutoff: Angstrom.
        """
        store, number = self._place(self.rows[index])
        return store.host_graph(number, frame, cutoff)

    @cached_property
    def table(self) -> FrameTable:
        """One row a frame; the files are read once, in a stream."""
        return FrameTable.join([store.table for store in self.stores]).take(self.rows)

    def force_squares(self) -> tuple[float, int]:
        """Sum of the squares of labelled force components, and their number."""
        table = self.table
        known = table.has_forces & ~table.isolated
        squares = np.concatenate([store.force_squares for store in self.stores])[self.rows]
        return float(squares[known].sum()), 3 * int(table.n_atoms[known].sum())

    def digest(self) -> str:
        """Changes if a file or the selection does; nothing but the files' own digests is read."""
        digest = hashlib.sha256(np.ascontiguousarray(self.rows).tobytes())
        for store in self.stores:
            digest.update(store.digests.encode())
        return digest.hexdigest()

    def sources(self) -> dict[str, list[int]]:
        """Numbers of the frames by file."""
        which = np.searchsorted(self._starts, self.rows, side="right") - 1
        return {
            str(store.path): (self.rows[which == k] - self._starts[k]).tolist()
            for k, store in enumerate(self.stores)
        }

    def _place(self, index: int | np.integer) -> tuple[HDF5Dataset, int]:
        which = int(np.searchsorted(self._starts, index, side="right")) - 1
        return self.stores[which], int(index - self._starts[which])
