"""Trajectories in the H5MD layout of HDF5."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np

import mlpot

from .frame import Frame
from .journal import JournaledFile, recover

#: Datasets that grow with the trajectory, and their units.
_VECTORS = {
    "position": "Angstrom",
    "velocity": "Angstrom fs-1",
    "force": "eV Angstrom-1",
    "image": "",
}
_FIELDS = {
    "position": "positions",
    "velocity": "velocities",
    "force": "forces",
    "image": "images",
}
_CHUNK_BYTES = 1 << 18
#: Frames are handed to HDF5 together, up to so many atoms: each call costs a while.
_WAITING_ATOMS = 20_000
#: So much may wait for the disk.
_CHANGED_BYTES = 1 << 26


class H5MDFile:
    """Frames of one or several structures, appended so that the file can always be opened.

    Layout: https://www.nongnu.org/h5md/h5md.html, version 1.1. Each structure is a group
    ``/particles/all`` (``/particles/replica_000`` and so on where there are several) with
    ``position``, ``velocity``, ``force`` and ``image`` and the cell in ``box/edges``, each with
    ``step``, ``time`` and ``value``; the potential energy is in ``/observables/NAME``. Positions
    are wrapped; ``position + image @ edges`` are not.

    Args:
        path: made anew, or continued if ``n_frames`` is given.
        frame: what the structures are like.
        n_frames: frames that are kept of an earlier part of the run.
        dtype: of positions, velocities and forces.
    """

    def __init__(
        self, path: Path, frame: Frame, n_frames: int | None = None, dtype: str = "float32"
    ) -> None:
        self.path = path
        if n_frames is None:
            path.unlink(missing_ok=True)
            recover(path)
        self._waiting: list[Frame] = []
        self._file = JournaledFile(path)
        self._h5: Any = h5py.File(self._file, "r+" if n_frames is not None else "w")
        if n_frames is None:
            self._create(frame, np.dtype(dtype))
        else:
            self._cut(n_frames)
        self._commit()

    def _create(self, frame: Frame, dtype: np.dtype) -> None:
        h5 = self._h5
        about = h5.create_group("h5md")
        about.attrs["version"] = np.array([1, 1], np.int32)
        about.create_group("author").attrs["name"] = "unknown"
        creator = about.create_group("creator")
        creator.attrs["name"], creator.attrs["version"] = "mlpot", mlpot.__version__
        units = about.create_group("modules").create_group("units")
        units.attrs["version"] = np.array([1, 0], np.int32)
        for name, part in frame.parts():
            group = h5.create_group(f"particles/{name}")
            group["species"] = frame.numbers[part].astype(np.int32)
            group["mass"] = frame.masses[part]
            group["mass"].attrs["unit"] = "u"
            shape = (len(frame.numbers[part]), 3)
            for key, unit in _VECTORS.items():
                kind = np.dtype(np.int32) if key == "image" else dtype
                self._element(group, key, shape, kind, unit)
            box = group.create_group("box")
            box.attrs["dimension"] = 3
            graph = int(frame.node_graph[part.start])
            box.attrs["boundary"] = [
                "periodic" if periodic else "none" for periodic in frame.pbc[graph]
            ]
            self._element(box, "edges", (3, 3), np.dtype(np.float64), "Angstrom")
            observables = h5.create_group(f"observables/{name}")
            self._element(observables, "potential_energy", (), np.dtype(np.float64), "eV")

    @staticmethod
    def _element(group: Any, name: str, shape: tuple, dtype: np.dtype, unit: str) -> None:
        place = group.create_group(name)
        each = max(1, int(np.prod(shape)) * dtype.itemsize)
        rows = max(1, _CHUNK_BYTES // each)
        value: Any = place.create_dataset(
            "value", (0, *shape), dtype, maxshape=(None, *shape), chunks=(min(rows, 1024), *shape)
        )
        if unit:
            value.attrs["unit"] = unit
        place.create_dataset("step", (0,), np.int64, maxshape=(None,), chunks=(1024,))
        place.create_dataset("time", (0,), np.float64, maxshape=(None,), chunks=(1024,))
        place["time"].attrs["unit"] = "fs"

    def _elements(self):
        for name in self._h5["particles"]:
            group = self._h5[f"particles/{name}"]
            yield from ((name, key, group[key]) for key in _VECTORS)
            yield name, "edges", group["box/edges"]
            yield name, "energy", self._h5[f"observables/{name}/potential_energy"]

    def _cut(self, n_frames: int) -> None:
        for _, _, element in self._elements():
            for part in ("value", "step", "time"):
                length = len(element[part])
                if length < n_frames:
                    raise ValueError(
                        f"trajectory {str(self.path)!r} has {length} frames, the restart file "
                        f"counts {n_frames}: they do not belong together"
                    )
                element[part].resize(n_frames, axis=0)

    def write(self, frame: Frame) -> None:
        """Append a frame; on its way to the disk with `flush`, or when there are many."""
        self._waiting.append(frame)
        if len(self._waiting) >= max(1, _WAITING_ATOMS // len(frame.numbers)):
            self._put()
            if self._file.changed_bytes > _CHANGED_BYTES:
                self._commit()

    def _put(self) -> None:
        """Hand all frames that wait to HDF5."""
        frames, self._waiting = self._waiting, []
        if not frames:
            return
        parts = dict(frames[0].parts())
        for name, key, element in self._elements():
            part = parts[name]
            graph = int(frames[0].node_graph[part.start])
            values = [_value(frame, key, part, graph) for frame in frames]
            first = len(element["step"])
            for dataset in ("value", "step", "time"):
                element[dataset].resize(first + len(frames), axis=0)
            element["value"][first:] = np.stack(values)
            element["step"][first:] = [frame.step for frame in frames]
            element["time"][first:] = [frame.time for frame in frames]

    def flush(self) -> None:
        """Put all frames into the file, as one change."""
        self._put()
        self._commit()

    def _commit(self) -> None:
        self._h5.flush()
        self._file.commit()

    def abandon(self) -> None:
        """Close the file as it was committed last."""
        self._waiting = []
        self._h5.close()
        self._file.close()

    def close(self) -> None:
        """Finish the file."""
        if self._h5:
            self._put()
            self._h5.close()
            self._file.commit()
            self._file.close()


def _value(frame: Frame, key: str, part: slice, graph: int) -> np.ndarray:
    if key in ("edges", "energy"):
        return np.asarray((frame.cells if key == "edges" else frame.energies)[graph])
    return getattr(frame, _FIELDS[key])[part]


def read_h5md(path: Path, name: str | None = None) -> dict[str, np.ndarray]:
    """Arrays of one structure of a trajectory; finishes what a killed run has left half made.

    Args:
        path: written by `H5MDFile`.
        name: of the group below ``/particles``; the first by default.

    Returns:
        ``step``, ``time`` (n_frames,), ``species`` (n_atoms,), ``position``, ``velocity``,
        ``force``, ``image`` (n_frames, n_atoms, 3), ``edges`` (n_frames, 3, 3) and ``energy``
        (n_frames,).

    Raises:
        ValueError: no such file or group, or not H5MD.
    """
    recover(path)
    try:
        with h5py.File(path, "r") as file:
            h5: Any = file
            groups = h5["particles"]
            found = sorted(groups) if name is None else [name]
            group = groups[found[0]]
            arrays = {key: group[f"{key}/value"][:] for key in _VECTORS}
            arrays["edges"] = group["box/edges/value"][:]
            arrays["species"] = group["species"][:]
            arrays["step"] = group["position/step"][:]
            arrays["time"] = group["position/time"][:]
            arrays["energy"] = h5[f"observables/{found[0]}/potential_energy/value"][:]
            return arrays
    except (OSError, KeyError) as error:
        raise ValueError(f"trajectory {str(path)!r} cannot be read: {error}") from error
