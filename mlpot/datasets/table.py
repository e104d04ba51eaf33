"""What is known about many frames without holding them: a few numbers for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from mlpot.elements import SYMBOLS, symbol

from .frame import Frame

N_ELEMENTS = len(SYMBOLS)


@dataclass(frozen=True)
class FrameTable:
    """One row a frame.

    Args:
        n_atoms: (n_frames,) numbers of atoms.
        composition: (n_frames,) rows of ``compositions``.
        compositions: (n_compositions, 119) how many atoms of each element, index = atomic number.
        kind: (n_frames,) entries of ``kinds``.
        kinds: config types.
        energy: (n_frames,) eV, NaN where it is not known.
        has_forces: (n_frames,) whether forces are known.
        has_stress: (n_frames,) whether the stress is known.
        isolated: (n_frames,) whether it is an isolated atom.
    """

    n_atoms: np.ndarray
    composition: np.ndarray
    compositions: np.ndarray
    kind: np.ndarray
    kinds: list[str]
    energy: np.ndarray
    has_forces: np.ndarray
    has_stress: np.ndarray
    isolated: np.ndarray

    @classmethod
    def of(cls, frames: Sequence[Frame]) -> FrameTable:
        """The table of frames; those on disk give it without being made."""
        if isinstance(frames, Tabulated):
            return frames.table
        ids: dict[bytes, int] = {}
        kinds: dict[str, int] = {}
        rows = []
        for frame in frames:
            counts = np.bincount(frame.numbers, minlength=N_ELEMENTS).astype(np.int32)
            rows.append(
                (
                    frame.n_atoms,
                    ids.setdefault(counts.tobytes(), len(ids)),
                    kinds.setdefault(frame.config_type, len(kinds)),
                    np.nan if frame.energy is None else frame.energy,
                    frame.forces is not None,
                    frame.stress is not None,
                    frame.is_isolated_atom,
                )
            )
        columns = [np.array(column) for column in zip(*rows, strict=True)] or [np.zeros(0)] * 7
        return cls(
            n_atoms=columns[0].astype(np.int64),
            composition=columns[1].astype(np.int64),
            compositions=as_compositions(ids),
            kind=columns[2].astype(np.int64),
            kinds=list(kinds),
            energy=columns[3].astype(np.float64),
            has_forces=columns[4].astype(bool),
            has_stress=columns[5].astype(bool),
            isolated=columns[6].astype(bool),
        )

    def __len__(self) -> int:
        return len(self.n_atoms)

    def take(self, rows: np.ndarray) -> FrameTable:
        """Some of the rows, (n,) indices."""
        per_frame = ("n_atoms", "composition", "kind", "energy", "has_forces", "has_stress")
        chosen = {name: getattr(self, name)[rows] for name in (*per_frame, "isolated")}
        return FrameTable(compositions=self.compositions, kinds=self.kinds, **chosen)

    @classmethod
    def join(cls, tables: Sequence[FrameTable]) -> FrameTable:
        """Tables one behind another."""
        if len(tables) == 1:
            return tables[0]
        ids: dict[bytes, int] = {}
        kinds: dict[str, int] = {}
        composition, kind = [], []
        for table in tables:
            own = [ids.setdefault(row.tobytes(), len(ids)) for row in table.compositions]
            named = [kinds.setdefault(name, len(kinds)) for name in table.kinds]
            composition.append(np.array(own, np.int64)[table.composition])
            kind.append(np.array(named, np.int64)[table.kind])
        same = ("n_atoms", "energy", "has_forces", "has_stress", "isolated")
        return cls(
            composition=np.concatenate(composition),
            compositions=as_compositions(ids),
            kind=np.concatenate(kind),
            kinds=list(kinds),
            **{name: np.concatenate([getattr(t, name) for t in tables]) for name in same},
        )

    @property
    def elements(self) -> list[int]:
        """Atomic numbers that occur, ascending."""
        used = np.unique(self.composition)
        return np.flatnonzero(self.compositions[used].any(axis=0)).tolist()

    def labels(self) -> dict[str, int]:
        """How many frames have energy, forces, stress."""
        return {
            "energy": int(np.isfinite(self.energy).sum()),
            "forces": int(self.has_forces.sum()),
            "stress": int(self.has_stress.sum()),
        }

    def formula(self, composition: int) -> str:
        """``H6C2O``, elements by atomic number, as `Frame.formula`."""
        counts = self.compositions[composition]
        return "".join(
            f"{symbol(int(z))}{counts[z] if counts[z] > 1 else ''}" for z in np.flatnonzero(counts)
        )


@runtime_checkable
class Tabulated(Protocol):
    """Frames that know their table."""

    @property
    def table(self) -> FrameTable:
        """One row a frame."""
        ...


def as_compositions(ids: dict[bytes, int]) -> np.ndarray:
    """Rows of counts, in the order of their numbers."""
    return np.frombuffer(b"".join(ids), np.int32).reshape(-1, N_ELEMENTS)
