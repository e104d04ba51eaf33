"""What is in a data set, in a few lines, gathered while frames pass by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from mlpot.elements import format_elements
from mlpot.units import GPA

from .frame import Frame
from .suspicions import fingerprint, suspicions

_SAMPLE = 2000  # frames kept for the closer look
_FINGERPRINTS = 200_000  # frames compared for duplicates
_TYPES_SHOWN = 12


@dataclass(frozen=True)
class Summary:
    """Counts and ranges of a data set; ``str(summary)`` is what users see.

    Attributes:
        n_frames: number of frames.
        n_atoms: number of atoms in all of them.
        atoms_range: smallest and largest number of atoms in a frame.
        elements: atomic numbers that occur.
        isolated: elements with an isolated atom.
        labels: frames with energy, forces, stress.
        config_types: frames of each type, most frequent first.
        ranges: lines about the values of labels.
        warnings: what looks wrong.
    """

    n_frames: int
    n_atoms: int
    atoms_range: tuple[int, int]
    elements: tuple[int, ...]
    isolated: tuple[int, ...]
    labels: dict[str, int]
    config_types: dict[str, int]
    ranges: tuple[str, ...]
    warnings: tuple[str, ...]

    def __str__(self) -> str:
        low, high = self.atoms_range
        size = f"{low}" if low == high else f"{low} to {high}"
        lines = [
            f"{self.n_frames} frames, {self.n_atoms} atoms ({size} a frame): "
            f"{format_elements(self.elements)}",
            "labels: " + ", ".join(f"{name} {n}" for name, n in self.labels.items()),
            *self.ranges,
        ]
        if self.isolated:
            lines.append(f"isolated atoms: {format_elements(self.isolated)}")
        if set(self.config_types) != {"Default"}:
            shown = list(self.config_types.items())[:_TYPES_SHOWN]
            more = len(self.config_types) - len(shown)
            lines.append(
                "config types: "
                + ", ".join(f"{name} {n}" for name, n in shown)
                + (f" and {more} more" if more else "")
            )
        lines += [f"suspicious: {text}" for text in self.warnings]
        return "\n".join(lines)


class _Range:
    """Smallest and largest of values that come one by one."""

    def __init__(self) -> None:
        self.low, self.high = np.inf, -np.inf

    def add(self, value: float) -> None:
        self.low, self.high = min(self.low, value), max(self.high, value)

    def __bool__(self) -> bool:
        return self.low <= self.high


class Census:
    """Counts frames while they stream by, in bounded memory."""

    def __init__(self) -> None:
        self._sizes, self._energy, self._pressure = _Range(), _Range(), _Range()
        self._n_atoms = self._n_frames = self._n_components = 0
        self._squares = self._largest = 0.0
        self._elements: set[int] = set()
        self._isolated: set[int] = set()
        self._labels = Counter({"energy": 0, "forces": 0, "stress": 0})
        self._types: Counter[str] = Counter()
        self._notes: Counter[str] = Counter()
        self._seen: set[bytes] = set()
        self._repeated = 0
        self._sample: list[Frame] = []
        self._rng = np.random.default_rng(0)

    def watch(self, frames: Iterable[Frame]) -> Iterator[Frame]:
        """Pass frames on, counting them."""
        for frame in frames:
            self.add(frame)
            yield frame

    def add(self, frame: Frame) -> None:
        """Count one frame."""
        self._n_frames += 1
        self._n_atoms += frame.n_atoms
        self._sizes.add(frame.n_atoms)
        self._elements.update(np.unique(frame.numbers).tolist())
        self._types[frame.config_type] += 1
        self._notes.update(frame.notes)
        for name in ("energy", "forces", "stress"):
            self._labels[name] += getattr(frame, name) is not None
        if frame.hvps is not None:
            self._labels["Hessian-vector products"] += 1
        if frame.is_isolated_atom:
            if frame.energy is not None:
                self._isolated.add(int(frame.numbers[0]))
            return
        self._measure(frame)
        if len(self._seen) < _FINGERPRINTS:
            mark = fingerprint(frame)
            self._repeated += mark in self._seen
            self._seen.add(mark)
        if len(self._sample) < _SAMPLE:
            self._sample.append(frame)
        elif (place := int(self._rng.integers(self._n_frames))) < _SAMPLE:
            self._sample[place] = frame

    def _measure(self, frame: Frame) -> None:
        if frame.energy is not None:
            self._energy.add(frame.energy / frame.n_atoms)
        if frame.forces is not None:
            self._squares += float(np.sum(frame.forces**2))
            self._n_components += frame.forces.size
            self._largest = max(self._largest, float(np.abs(frame.forces).max()))
        if frame.stress is not None:
            self._pressure.add(-float(np.trace(frame.stress)) / 3 / GPA)

    def _ranges(self) -> Iterator[str]:
        if self._energy:
            yield f"energy: {self._energy.low:.4f} to {self._energy.high:.4f} eV/atom"
        if self._n_components:
            rms = np.sqrt(self._squares / self._n_components)
            yield f"forces: RMS {rms:.4f}, largest component {self._largest:.3f} eV/Angstrom"
        if self._pressure:
            yield f"pressure: {self._pressure.low:.3f} to {self._pressure.high:.3f} GPa"

    def _warnings(self) -> Iterator[str]:
        for note, count in self._notes.items():
            yield f"{note} ({count} frames)"
        yield from suspicions(self._sample)
        if self._repeated:
            yield f"{self._repeated} frames repeat another one exactly"

    def summary(self) -> Summary:
        """What was counted.

        Raises:
            ValueError: no frames.
        """
        if self._n_frames == 0:
            raise ValueError("no frames to summarise")
        return Summary(
            n_frames=self._n_frames,
            n_atoms=self._n_atoms,
            atoms_range=(int(self._sizes.low), int(self._sizes.high)),
            elements=tuple(sorted(self._elements)),
            isolated=tuple(sorted(self._isolated)),
            labels=dict(self._labels),
            config_types=dict(self._types.most_common()),
            ranges=tuple(self._ranges()),
            warnings=tuple(self._warnings()),
        )


def summary(frames: Iterable[Frame]) -> Summary:
    """Count and examine frames.

    Args:
        frames: at least one.

    Raises:
        ValueError: no frames.
    """
    census = Census()
    for frame in frames:
        census.add(frame)
    return census.summary()
