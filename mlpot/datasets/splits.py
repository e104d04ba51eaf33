"""Training and validation sets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from .frame import Frame


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
    strata: dict[tuple[str, str], list[int]] = defaultdict(list)
    for index, frame in enumerate(frames):
        if not frame.is_isolated_atom:
            strata[frame.formula, frame.config_type].append(index)
    members = [strata[key] for key in sorted(strata)]
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
    valid: set[int] = set()
    for group, count in zip(members, counts, strict=True):
        valid.update(group[i] for i in rng.permutation(len(group))[:count])
    return [i for i in range(len(frames)) if i not in valid], sorted(valid)


def split(
    frames: Sequence[Frame], valid_fraction: float, seed: int
) -> tuple[list[Frame], list[Frame]]:
    """As `split_indices`, but gives the frames: ``train, valid = split(frames, 0.1, seed=0)``."""
    train, valid = split_indices(frames, valid_fraction, seed)
    return [frames[i] for i in train], [frames[i] for i in valid]
