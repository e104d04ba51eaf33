"""Reading mlpot's own file of frames: random access, checked."""

from __future__ import annotations

import hashlib
import json
import operator
import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, overload

import h5py
import numpy as np

from mlpot.graph import reduce_positions
from mlpot.graph.cell import check_cell
from mlpot.graph.host import HostGraph

from .frame import Frame, name_is_isolated
from .hdf5_layout import (
    COLUMNS,
    ENERGY,
    FORCES,
    HVP_COLUMNS,
    HVPS,
    NEIGHBOR_COLUMNS,
    NEIGHBORS,
    POINTERS,
    STRESS,
    Column,
    check_format,
)
from .table import N_ELEMENTS, FrameTable, as_compositions

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
        #: Angstrom, of the neighbour lists in the file; None where there are none.
        self.neighbor_cutoff: float | None = None
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
        check_format(self._file, self.path)
        try:
            self.provenance: dict[str, Any] = json.loads(attributes["provenance"])
            self._layout: tuple[Column, ...] = COLUMNS
            n_edges = 0
            if NEIGHBORS in self._file:
                self._layout = (*COLUMNS, *NEIGHBOR_COLUMNS)
                self.neighbor_cutoff = float(self._file[NEIGHBORS].attrs["cutoff"])
                n_edges = int(self._file["neighbors/edge_ptr"][-1])
            n_products = 0
            if HVPS in self._file:
                self._layout = (*self._layout, *HVP_COLUMNS)
                n_products = int(self._file["hvps/row_ptr"][-1])
            self._columns = {column.name: self._file[column.name] for column in self._layout}
            #: Digests of all arrays, as JSON.
            self.digests = str(attributes["sha256"])
            self._types = [name.decode() for name in self._file["config_types"][:]]
            self._ptr = self._columns["atom_ptr"][:]
            self._n_frames = int(attributes["n_frames"])
            n_atoms = int(attributes["n_atoms"])
        except (OSError, KeyError, ValueError) as error:
            raise self._damaged(error) from None
        sizes = {"frame": self._n_frames, "atom": n_atoms, "edge": n_edges}
        sizes["product"] = n_products
        for column in self._layout:
            expected = sizes[column.per] + (column.name in POINTERS)
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
            rows = slice(first, last) if column.per == "atom" else slice(start, stop)
            data[column.name] = self._read(column.name, rows)
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
                    **self._products(index, atoms.stop - atoms.start),
                )
            )
        return frames

    @property
    def has_products(self) -> bool:
        """Whether Hessian-vector products of any frame are stored."""
        return HVP_COLUMNS[0].name in self._columns

    def _products(self, index: int, n_atoms: int) -> dict[str, Any]:
        """Hessian-vector products of a frame as arguments of `Frame`."""
        if not self.has_products:
            return {}
        first, last = self._read("hvps/row_ptr", slice(index, index + 2))
        if first == last:
            return {}
        rows = slice(int(first), int(last))
        return {
            "hvp_vectors": self._read("hvps/vectors", rows).reshape(-1, n_atoms, 3),
            "hvps": self._read("hvps/products", rows).reshape(-1, n_atoms, 3),
            "hvps_weight": float(self._read("hvps/weights", slice(index, index + 1))[0]),
        }

    def _read(self, name: str, rows: slice) -> np.ndarray:
        try:
            return self._columns[name][rows]
        except OSError as error:
            raise self._damaged(f"{name}: {error}") from None

    def host_graph(self, index: int, frame: Frame, cutoff: float) -> HostGraph | None:
        """The graph of a frame from its stored neighbour list; None where there is none so wide.

        Args:
            index: of the frame.
            frame: the frame itself.
            cutoff: Angstrom.
        """
        if self.neighbor_cutoff is None or cutoff > self.neighbor_cutoff:
            return None
        start, stop = self._read("neighbors/edge_ptr", slice(index, index + 2))
        edges = slice(int(start), int(stop))
        senders, receivers = (
            self._read(f"neighbors/{name}", edges).astype(np.int64)
            for name in ("senders", "receivers")
        )
        shifts = self._read("neighbors/shifts", edges).astype(np.float64)
        positions = reduce_positions(frame.positions, frame.cell, frame.pbc)
        if cutoff < self.neighbor_cutoff:
            vectors = positions[senders] - positions[receivers] + shifts @ frame.cell
            near = (vectors**2).sum(axis=1) < cutoff**2
            senders, receivers, shifts = senders[near], receivers[near], shifts[near]
        return HostGraph(
            numbers=frame.numbers,
            positions=positions,
            cells=check_cell(frame.cell, frame.pbc)[0][None],
            node_graph=np.zeros(frame.n_atoms, np.int64),
            shifts=shifts,
            senders=senders,
            receivers=receivers,
        )

    @cached_property
    def table(self) -> FrameTable:
        """One row a frame; the file is read once, in a stream."""
        labels = self._read("frames/labels", slice(None))
        kind = self._read("frames/config_type", slice(None)).astype(np.int64)
        periodic = self._read("frames/pbc", slice(None)).any(axis=1)
        named = np.array([name_is_isolated(name) for name in self._types])[kind]
        ids: dict[bytes, int] = {}
        composition = np.empty(self._n_frames, np.int64)
        for start in range(0, self._n_frames, _BLOCK_FRAMES):
            stop = min(start + _BLOCK_FRAMES, self._n_frames)
            atoms = slice(int(self._ptr[start]), int(self._ptr[stop]))
            rows = np.repeat(np.arange(stop - start), self.atom_counts[start:stop])
            places = rows * N_ELEMENTS + self._read("atoms/numbers", atoms)
            counts = np.bincount(places, minlength=(stop - start) * N_ELEMENTS)
            unique, inverse = np.unique(
                counts.reshape(-1, N_ELEMENTS).astype(np.int32), axis=0, return_inverse=True
            )
            own = np.array([ids.setdefault(row.tobytes(), len(ids)) for row in unique])
            composition[start:stop] = own[inverse.reshape(-1)]
        energy = self._read("frames/energy", slice(None))
        return FrameTable(
            n_atoms=self.atom_counts,
            composition=composition,
            compositions=as_compositions(ids),
            kind=kind,
            kinds=self._types,
            energy=np.where(labels & ENERGY, energy, np.nan),
            has_forces=(labels & FORCES) > 0,
            has_stress=(labels & STRESS) > 0,
            isolated=(self.atom_counts == 1) & (named | ~periodic),
        )

    @cached_property
    def force_squares(self) -> np.ndarray:
        """Sum of the squares of the force components of each frame, (n_frames,), eV^2/Angstrom^2.

        The file is read once, in a stream.
        """
        squares = np.empty(self._n_frames)
        for start in range(0, self._n_frames, _BLOCK_FRAMES):
            stop = min(start + _BLOCK_FRAMES, self._n_frames)
            first, last = int(self._ptr[start]), int(self._ptr[stop])
            each = (self._read("atoms/forces", slice(first, last)) ** 2).sum(axis=1)
            squares[start:stop] = np.add.reduceat(each, self._ptr[start:stop] - first)
        return squares

    def verify(self) -> None:
        """Read the whole file and compare every array with its digest.

        Raises:
            ValueError: an array differs from what was written, naming it.
        """
        digests = json.loads(self.digests)
        for column in self._layout:
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
