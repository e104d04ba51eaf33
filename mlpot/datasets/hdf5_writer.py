"""Writing mlpot's own file of frames: in one stream, with checksums, complete or not at all."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from mlpot import __version__
from mlpot.files import temporary_beside

from .collating import host_graph
from .frame import Frame, voigt_stress
from .hdf5_layout import (
    COLUMNS,
    ENERGY,
    FORCES,
    FORMAT,
    HVP_COLUMNS,
    NEIGHBOR_COLUMNS,
    NEIGHBORS,
    POINTERS,
    STRESS,
    UNITS,
    VERSION,
    Column,
)

_FLUSH_ATOMS = 65_536


class HDF5Writer:
    """Writes frames one by one; the file appears under its name when all is written.

    Use as a context manager; if the body raises, an older file of that name stays as it was.

        with HDF5Writer("copper.h5", provenance={"method": "EMT"}) as writer:
            for frame in frames:
                writer.append(frame)

    Args:
        path: file to be made or replaced; its folder must exist.
        provenance: where the data come from; must be fit for JSON.
        neighbors: Angstrom; lists of all pairs closer than this are stored, too.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        provenance: Mapping[str, Any] | None = None,
        neighbors: float | None = None,
    ):
        if neighbors is not None and not neighbors > 0:
            raise ValueError(f"neighbors is a cutoff above 0 Angstrom, not {neighbors}")
        self.path, self._neighbors = Path(path), neighbors
        self._columns = (*COLUMNS, *(NEIGHBOR_COLUMNS if neighbors is not None else ()))
        self._provenance = json.dumps(dict(provenance or {}), indent=1, sort_keys=True)
        self._target = temporary_beside(self.path)

    def __enter__(self) -> HDF5Writer:
        self._file: Any = h5py.File(self._target.__enter__(), "w")
        self._types: dict[str, int] = {}
        self._rows: dict[str, list] = {column.name: [] for column in self._columns}
        for name in POINTERS:
            if name in self._rows:
                self._rows[name].append([0])
        self._hashes = {column.name: hashlib.sha256() for column in self._columns}
        self.n_frames = self.n_atoms = self.n_edges = self.n_products = self._waiting = 0
        self._create(self._columns)
        return self

    def _create(self, columns: Iterable[Column]) -> None:
        for column in columns:
            self._file.create_dataset(
                column.name,
                shape=(0, *column.shape),
                maxshape=(None, *column.shape),
                dtype=column.dtype,
                chunks=(column.chunk, *column.shape),
                compression="gzip",
                compression_opts=4,
                shuffle=True,
                fletcher32=True,
            )

    def append(self, frame: Frame) -> None:
        """Add a frame at the end."""
        known = (
            ENERGY * (frame.energy is not None)
            + FORCES * (frame.forces is not None)
            + STRESS * (frame.stress is not None)
        )
        forces = np.zeros((frame.n_atoms, 3)) if frame.forces is None else frame.forces
        stress = np.zeros(6) if frame.stress is None else voigt_stress(frame.stress)
        self.n_frames += 1
        self.n_atoms += frame.n_atoms
        self._waiting += frame.n_atoms
        row = {
            "atom_ptr": [self.n_atoms],
            "atoms/numbers": frame.numbers,
            "atoms/positions": frame.positions,
            "atoms/forces": forces,
            "frames/cell": frame.cell[None],
            "frames/pbc": frame.pbc[None],
            "frames/energy": [0.0 if frame.energy is None else frame.energy],
            "frames/stress": stress[None],
            "frames/labels": [known],
            "frames/weights": [
                [frame.weight, frame.energy_weight, frame.forces_weight, frame.stress_weight]
            ],
            "frames/config_type": [self._types.setdefault(frame.config_type, len(self._types))],
        }
        if self._neighbors is not None:
            graph = host_graph(frame, self._neighbors)
            self.n_edges += len(graph.senders)
            self._waiting += len(graph.senders) // 4
            row |= {
                "neighbors/edge_ptr": [self.n_edges],
                "neighbors/senders": graph.senders,
                "neighbors/receivers": graph.receivers,
                "neighbors/shifts": graph.shifts,
            }
        row |= self._products(frame)
        for name, value in row.items():
            self._rows[name].append(value)
        if self._waiting >= _FLUSH_ATOMS:
            self._flush()

    def _products(self, frame: Frame) -> dict[str, Any]:
        """Rows of Hessian-vector products; their arrays are made for the first frame with some."""
        if frame.hvps is None and HVP_COLUMNS[0].name not in self._rows:
            return {}
        if HVP_COLUMNS[0].name not in self._rows:
            self._columns = (*self._columns, *HVP_COLUMNS)
            self._create(HVP_COLUMNS)
            self._rows |= {column.name: [] for column in HVP_COLUMNS}
            self._hashes |= {column.name: hashlib.sha256() for column in HVP_COLUMNS}
            before = self.n_frames - 1
            self._rows["hvps/row_ptr"].append([0] * (before + 1))
            self._rows["hvps/weights"].append([1.0] * before)
        rows = np.zeros((2, 0, 3))
        if frame.hvps is not None and frame.hvp_vectors is not None:
            rows = np.stack([frame.hvp_vectors, frame.hvps]).reshape(2, -1, 3)
        self.n_products += rows.shape[1]
        self._waiting += rows.shape[1]
        return {
            "hvps/row_ptr": [self.n_products],
            "hvps/vectors": rows[0],
            "hvps/products": rows[1],
            "hvps/weights": [frame.hvps_weight],
        }

    def _flush(self) -> None:
        for column in self._columns:
            rows = self._rows[column.name]
            if not rows:
                continue
            block = np.concatenate(rows).astype(column.dtype)
            stored = self._file[column.name]
            start = len(stored)
            stored.resize(start + len(block), axis=0)
            stored[start:] = block
            self._hashes[column.name].update(block.tobytes())
            rows.clear()
        self._waiting = 0

    def __exit__(self, kind, error, traceback) -> None:
        try:
            if kind is None:
                self._finish()
        except BaseException as failure:
            self._file.close()
            self._target.__exit__(type(failure), failure, failure.__traceback__)
            raise
        self._file.close()
        self._target.__exit__(kind, error, traceback)

    def _finish(self) -> None:
        if self.n_frames == 0:
            raise ValueError(f"no frames to write to {self.path}")
        self._flush()
        if self._neighbors is not None:
            self._file[NEIGHBORS].attrs["cutoff"] = self._neighbors
        names = np.array([name.encode() for name in self._types], dtype=object)
        self._file.create_dataset("config_types", data=names, dtype=h5py.string_dtype())
        self._file.attrs.update(
            format=FORMAT,
            version=VERSION,
            writer=f"mlpot {__version__}",
            n_frames=self.n_frames,
            n_atoms=self.n_atoms,
            units=json.dumps(UNITS),
            sha256=json.dumps({name: h.hexdigest() for name, h in self._hashes.items()}),
            provenance=self._provenance,
        )


def write_hdf5(
    path: str | os.PathLike[str],
    frames: Iterable[Frame],
    provenance: Mapping[str, Any] | None = None,
    neighbors: float | None = None,
) -> int:
    """Write frames to mlpot's HDF5 format in one pass, with bounded memory.

    Args:
        path: file to be made or replaced in one step; its folder must exist.
        frames: at least one.
        provenance: where the data come from; must be fit for JSON.
        neighbors: Angstrom; lists of all pairs closer than this are stored, too.

    Returns:
        Number of frames written.

    Raises:
        ValueError: no frames.
    """
    with HDF5Writer(path, provenance, neighbors) as writer:
        for frame in frames:
            writer.append(frame)
    return writer.n_frames
