"""Training and validation sets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .frame import Frame
from .stored import StoredFrames
from .table import FrameTable


def split_indices(
    frames: Sequence[Frame], valid_fraction: float, seed: int
) -> tuple[list[int], list[int]]:
    """Random split in which every composition and config type has its share of both sets.

    Each stratum gives the rounded-down share to validation; what is missing to the rounded total
    comes from the strata with the largest remainders. Isolated atoms stay in training.

    Args:
        frames: all frames.
        valid_fraction: share of validation, 0 < fraction < 1.
        seed: the same seed gives the same split.

    Returns:
        Indices of training and of validation frames, ascending.

    Raises:
        ValueError: a fraction out of range, or too few frames for both sets.
    """
    if not 0 < valid_fraction < 1:
        raise ValueError(f"valid_fraction must lie between 0 and 1, got {valid_fraction}")
    members = _strata(FrameTable.of(frames))
    total = sum(map(len, members))
    if total < 2:
        raise ValueError(
            f"{total} frame{'s' if total != 1 else ''} (isolated atoms aside) cannot be split; "
            "give a valid_file or more data"
        )
    wanted = min(max(round(valid_fraction * total), 1), total - 1)
    rng = np.random.default_rng(seed)
    shares = np.array([valid_fraction * len(group) for group in members])
    counts = np.floor(shares).astype(int)
    # Random ranks break ties, so that equal small strata are served by lot, not by name.
    order = np.lexsort((rng.random(len(members)), -(shares - counts)))
    counts[order[: wanted - counts.sum()]] += 1
    is_valid = np.zeros(len(frames), bool)
    for group, count in zip(members, counts, strict=True):
        is_valid[group[rng.permutation(len(group))[:count]]] = True
    return np.flatnonzero(~is_valid).tolist(), np.flatnonzero(is_valid).tolist()


def _strata(table: FrameTable) -> list[np.ndarray]:
    """Indices of the frames of each formula and config type, in the order of these names."""
    usable = np.flatnonzero(~table.isolated)
    keys = table.composition[usable] * len(table.kinds) + table.kind[usable]
    order = np.argsort(keys, kind="stable")
    found, starts = np.unique(keys[order], return_index=True)
    groups = np.split(usable[order], starts[1:]) if len(found) else []
    names = [
        (table.formula(int(key) // len(table.kinds)), table.kinds[int(key) % len(table.kinds)])
        for key in found
    ]
    return [groups[i] for i in sorted(range(len(names)), key=names.__getitem__)]


def split(
    frames: Sequence[Frame], valid_fraction: float, seed: int
) -> tuple[Sequence[Frame], Sequence[Frame]]:
    """As `split_indices`, but gives the frames: ``train, valid = split(frames, 0.1, seed=0)``.

    Frames that stay in their files (`StoredFrames`) stay there.
    """
    train, valid = split_indices(frames, valid_fraction, seed)
    if isinstance(frames, StoredFrames):
        return frames.select(train), frames.select(valid)
    return [frames[i] for i in train], [frames[i] for i in valid]
