"""Choosing the frames that are worth a label: disputed by a committee, and unlike each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mlpot.datasets import FrameTable
from mlpot.datasets.descriptors import describe_frames, distances_to, farthest_points

from .disagreement import combine
from .evaluate import predict

if TYPE_CHECKING:
    from mlpot.datasets import Frame
    from mlpot.models import Potential


@dataclass(frozen=True)
class Selection:
    """Frames that were chosen from a pool.

    Args:
        index: in the order of choice.
        disagreement: (n_pool,) largest standard deviation of a force in each frame of the pool,
            eV/Angstrom.
        distance: (n_pool,) descriptor distance to the nearest labelled frame; None without these.
        candidates: how many frames of the pool are within the bounds.
    """

    index: list[int]
    disagreement: np.ndarray
    distance: np.ndarray | None
    candidates: int


def select(
    committee: Sequence[Potential],
    pool: Sequence[Frame],
    count: int,
    *,
    labelled: Sequence[Frame] = (),
    lower: float = 0.0,
    upper: float = np.inf,
    batch_size: int = 8,
) -> Selection:
    """Choose frames to label next.

    Frames whose most disputed force deviates by less than ``lower`` have nothing to teach, those
    above ``upper`` are broken. Of the others one after another is taken, each time the one with
    the largest product of disagreement and distance to the nearest frame that is labelled or
    chosen already (`mlpot.datasets.descriptors`): a choice by disagreement alone takes the same
    situation over and over.

    Args:
        committee: at least two potentials.
        pool: unlabelled frames (labels are not looked at).
        count: frames to choose; fewer where there are no more candidates.
        labelled: frames that have labels already.
        lower: eV/Angstrom.
        upper: eV/Angstrom.
        batch_size: frames computed at once.

    Raises:
        ValueError: fewer than two potentials, an empty pool, a count below 1, bounds without
            anything between them, or an element that the potentials do not know.
    """
    if len(committee) < 2:
        raise ValueError("disagreement takes at least two potentials: train a committee (n_models)")
    if count < 1:
        raise ValueError(f"the number of frames to choose is {count}: give at least 1")
    if not 0 <= lower < upper:
        raise ValueError(f"bounds of {lower:g} to {upper:g} eV/Angstrom hold nothing between them")
    said = [predict(member, pool, batch_size) for member in committee]
    spread = combine(pool, said)[1].largest
    cutoff = min(member.cutoff for member in committee)
    numbers = {*FrameTable.of(pool).elements}
    if len(labelled):
        numbers |= {*FrameTable.of(labelled).elements}
    points = describe_frames(pool, cutoff, numbers)
    known = describe_frames(labelled, cutoff, numbers) if len(labelled) else None
    inside = np.flatnonzero((spread >= lower) & (spread <= upper))
    order = farthest_points(points[inside], count, known, spread[inside])
    return Selection(
        [int(inside[i]) for i in order],
        spread,
        None if known is None else distances_to(points, known),
        len(inside),
    )
