"""What is in a data set, in a few lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from mlpot.elements import format_elements
from mlpot.units import GPA

from .frame import Frame
from .suspicions import suspicions


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
        config_types: frames of each type.
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
    ranges: tuple[str, ...] = ()
    warnings: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        low, high = self.atoms_range
        size = f"{low}" if low == high else f"{low} to {high}"
        types = ", ".join(f"{name} {n}" for name, n in list(self.config_types.items())[:12])
        more = len(self.config_types) - 12
        lines = [
            f"{self.n_frames} frames, {self.n_atoms} atoms ({size} a frame): "
            f"{format_elements(self.elements)}",
            "labels: " + ", ".join(f"{name} {n}" for name, n in self.labels.items()),
            *self.ranges,
        ]
        if self.isolated:
            lines.append(f"isolated atoms: {format_elements(self.isolated)}")
        if set(self.config_types) != {"Default"}:
            lines.append(f"config types: {types}" + (f" and {more} more" if more > 0 else ""))
        lines += [f"suspicious: {text}" for text in self.warnings]
        return "\n".join(lines)


def summary(frames: Iterable[Frame]) -> Summary:
    """Count and examine frames.

    Args:
        frames: at least one.

    Raises:
        ValueError: no frames.
    """
    frames = list(frames)
    if not frames:
        raise ValueError("no frames to summarise")
    sizes = [f.n_atoms for f in frames]
    return Summary(
        n_frames=len(frames),
        n_atoms=sum(sizes),
        atoms_range=(min(sizes), max(sizes)),
        elements=tuple(sorted({int(z) for f in frames for z in np.unique(f.numbers)})),
        isolated=tuple(
            sorted(
                {int(f.numbers[0]) for f in frames if f.is_isolated_atom and f.energy is not None}
            )
        ),
        labels={
            name: sum(getattr(f, name) is not None for f in frames)
            for name in ("energy", "forces", "stress")
        },
        config_types=dict(Counter(f.config_type for f in frames).most_common()),
        ranges=tuple(_ranges([f for f in frames if not f.is_isolated_atom])),
        warnings=tuple(suspicions(frames)),
    )


def _ranges(frames: list[Frame]) -> list[str]:
    lines = []
    energies = [f.energy / f.n_atoms for f in frames if f.energy is not None]
    if energies:
        lines.append(f"energy: {min(energies):.4f} to {max(energies):.4f} eV/atom")
    forces = [f.forces.ravel() for f in frames if f.forces is not None]
    if forces:
        values = np.concatenate(forces)
        lines.append(
            f"forces: RMS {np.sqrt(np.mean(values**2)):.4f}, "
            f"largest component {np.abs(values).max():.3f} eV/Angstrom"
        )
    pressures = [-np.trace(f.stress) / 3 / GPA for f in frames if f.stress is not None]
    if pressures:
        lines.append(f"pressure: {min(pressures):.3f} to {max(pressures):.3f} GPa")
    return lines
