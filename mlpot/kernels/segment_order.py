"""In which order the rows of segments lie: what lets a GPU sum them without atomics or a sort."""

from __future__ import annotations

from dataclasses import dataclass

import mlx.core as mx
from jaxtyping import Int


@dataclass(frozen=True)
class SegmentOrder:
    """What is known about an index of segments, besides the index itself.

    Args:
        ptr: (n_segments + 1,) int32, places of segment s are ``ptr[s] : ptr[s + 1]``; None if they
            have to be found.
        perm: (n,) int32, the row at each place, ordered by segment; None if the index is
            nondecreasing, so that a row is its own place.
    """

    ptr: Int[mx.array, " n_ptr"] | None = None
    perm: Int[mx.array, " n"] | None = None

    def __post_init__(self) -> None:
        if self.perm is not None and self.ptr is None:
            raise ValueError("perm is given without ptr, the offsets of the segments in it")

    def arrays(self) -> tuple[mx.array, ...]:
        """The arrays there are: (), (ptr,) or (ptr, perm)."""
        return tuple(a for a in (self.ptr, self.perm) if a is not None)
