"""Numbers that scale a model to its data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mlpot import graph

from .frame import Frame
from .stored import StoredFrames


def force_rms(frames: Sequence[Frame]) -> float:
    """Root mean square of all labelled force components, eV/Angstrom.

    Raises:
        ValueError: no frame has forces, or all of them are zero.
    """
    if isinstance(frames, StoredFrames):
        total, count = frames.force_squares()
    else:
        total, count = 0.0, 0
        for frame in frames:
            if frame.forces is not None and not frame.is_isolated_atom:
                total += float(np.sum(frame.forces**2))
                count += frame.forces.size
    if count == 0:
        raise ValueError("no frame has forces; give the scale of energies instead")
    if total == 0:
        raise ValueError("all forces are zero; check forces_key and the data")
    return float(np.sqrt(total / count))


def average_neighbors(frames: Sequence[Frame], cutoff: float, max_frames: int = 500) -> float:
    """Mean number of neighbours of an atom within the cutoff.

    Args:
        frames: frames; isolated atoms do not count unless there is nothing else.
        cutoff: Angstrom.
        max_frames: at most so many frames are looked at, evenly spaced.

    Raises:
        ValueError: no frames.
    """
    if len(frames) == 0:
        raise ValueError("no frames to count neighbours in")
    picks = np.unique(np.linspace(0, len(frames) - 1, max_frames).round().astype(int))
    chosen = [frames[int(i)] for i in picks]
    chosen = [f for f in chosen if not f.is_isolated_atom] or chosen
    edges = atoms = 0
    for frame in chosen:
        edges += len(graph.neighbor_list(frame.positions, frame.cell, frame.pbc, cutoff)[0])
        atoms += frame.n_atoms
    return edges / atoms


def closest_pair(frames: Sequence[Frame], radius: float = 3.0) -> float | None:
    """Distance of the two closest atoms of all frames, Angstrom; None if none are within radius.

    Args:
        frames: structures.
        radius: Angstrom; pairs farther apart are not looked for.
    """
    shortest = np.inf
    for frame in frames:
        senders, receivers, shifts = graph.neighbor_list(
            frame.positions, frame.cell, frame.pbc, radius
        )
        if len(senders):
            vectors = frame.positions[senders] - frame.positions[receivers]
            vectors = vectors + shifts @ np.asarray(frame.cell)
            shortest = min(shortest, float(np.sqrt((vectors**2).sum(axis=1).min())))
    return shortest if np.isfinite(shortest) else None
