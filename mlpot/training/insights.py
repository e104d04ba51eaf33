"""What a report tells beside means: the worst frames, errors far from the training data, speed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mlpot.datasets import FrameTable
from mlpot.datasets.descriptors import describe_frames, distances_to

from .errors import Predictions
from .tables import format_number

if TYPE_CHECKING:
    from mlpot.datasets import Frame

#: Frames and atoms of a set that are looked at: descriptors take about a millisecond a frame.
MOST_FRAMES, MOST_ATOMS = 2000, 20_000

Sets = Mapping[str, tuple[Sequence["Frame"], Predictions]]


@dataclass(frozen=True)
class BadFrame:
    """A frame that a model is wrong about.

    Args:
        set: name of its set.
        source: where it comes from.
        formula: composition.
        config_type: kind of frame.
        energy: error of the energy per atom, eV/atom; None without label.
        forces: root mean square error of force components, eV/Angstrom; None without label.
        largest: largest error of a force, eV/Angstrom, and the atom; None without labels.
    """

    set: str
    source: str
    formula: str
    config_type: str
    energy: float | None
    forces: float | None
    largest: tuple[float, int] | None


def worst_frames(sets: Sets, count: int = 10) -> list[BadFrame]:
    """The frames with the largest force errors, or energy errors where there are no forces.

    Args:
        sets: frames and predictions by name of the set.
        count: how many.
    """
    found: list[tuple[float, BadFrame]] = []
    by_forces = any(f.forces is not None for frames, _ in sets.values() for f in frames)
    for name, (frames, said) in sets.items():
        for index, frame in enumerate(frames):
            energy = forces = largest = None
            if frame.energy is not None:
                energy = float(said.energy[index] - frame.energy) / frame.n_atoms
            if frame.forces is not None:
                error = said.forces[index] - frame.forces
                forces = float(np.sqrt((error**2).mean()))
                lengths = np.linalg.norm(error, axis=1)
                largest = float(lengths.max()), int(lengths.argmax())
            size = forces if by_forces else energy
            if size is not None:
                bad = BadFrame(
                    *(name, frame.source or str(index), frame.formula, frame.config_type),
                    *(energy, forces, largest),
                )
                found.append((abs(size), bad))
    found.sort(key=lambda pair: -pair[0])
    return [bad for _, bad in found[:count]]


def distances(sets: Sets, cutoff: float) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """How far frames are from the training data, and how wrong their forces.

    Distances are between descriptors that no model is needed for (`mlpot.datasets.descriptors`),
    to the nearest training frame. Of large sets a part is looked at, evenly spaced.

    Args:
        sets: frames and predictions by name; one of them is "train".
        cutoff: Angstrom, of the descriptors.

    Returns:
        For each other set distances and root mean square errors of the forces (eV/Angstrom), (n,)
        each, of the frames with force labels; sets without any are left out.
    """
    train, _ = sets["train"]
    numbers = {z for frames, _ in sets.values() for z in FrameTable.of(frames).elements}
    known = describe_frames([train[i] for i in _part(train)], cutoff, numbers)
    found = {}
    for name, (frames, said) in sets.items():
        if name == "train":
            continue
        rows = [i for i in _part(frames) if frames[i].forces is not None and frames[i].n_atoms > 1]
        if not rows:
            continue
        points = describe_frames([frames[i] for i in rows], cutoff, numbers)
        errors = [np.sqrt(((said.forces[i] - frames[i].forces) ** 2).mean()) for i in rows]
        found[name] = distances_to(points, known), np.array(errors)
    return found


def _part(frames: Sequence[Frame]) -> list[int]:
    """Rows of a part that is small enough."""
    sizes = FrameTable.of(frames).n_atoms
    share = min(1.0, MOST_FRAMES / len(sizes), MOST_ATOMS / max(1, int(sizes.sum())))
    count = max(1, int(share * len(sizes)))
    return np.unique(np.linspace(0, len(sizes) - 1, count).round().astype(int)).tolist()


def timing(rows: Sequence[Mapping[str, float | None]], n_frames: int) -> str:
    """Speed of training, from ``metrics.csv``: medians over epochs, validation included.

    Args:
        rows: of ``metrics.csv``.
        n_frames: frames an epoch.
    """
    moments = [(row["seconds"] or 0.0, row["step"] or 0.0) for row in rows]
    if not moments:
        return "no epoch is complete"
    seconds = np.diff([0.0, *(moment for moment, _ in moments)])
    steps = np.diff([0.0, *(step for _, step in moments)])
    epoch = float(np.median(seconds))
    step = 1e3 * float(np.median(seconds / np.maximum(steps, 1)))
    return (
        f"{epoch:.3g} s an epoch with its validation, {step:.3g} ms a step, "
        f"{n_frames / max(epoch, 1e-9):.4g} frames/s; first epoch {seconds[0]:.3g} s"
    )


def worst_cells(frames: Sequence[BadFrame]) -> tuple[list[str], list[list[str]]]:
    """Head and lines of a table of the worst frames."""
    head = ["set", "frame", "type", "formula", "energy\nmeV/atom", "force RMSE\nmeV/Å"]
    lines = []
    for bad in frames:
        largest = (
            "-"
            if bad.largest is None
            else f"{format_number(1e3 * bad.largest[0])} ({bad.largest[1]})"
        )
        lines.append(
            [bad.set, bad.source, bad.config_type, bad.formula]
            + [format_number(v and 1e3 * v) for v in (bad.energy, bad.forces)]
            + [largest]
        )
    return [*head, "largest (atom)\nmeV/Å"], lines
