"""Frames with the weights that a configuration gives to their kinds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlpot.datasets import Frame


class Weighted(Sequence[Frame]):
    """The same frames, each taken when it is used, with other weights.

    Args:
        frames: in memory or on the disk.
        factors: of the weights of frames, by their ``config_type``; 1 where there is none.
    """

    def __init__(self, frames: Sequence[Frame], factors: Mapping[str, float]) -> None:
        self._frames, self._factors = frames, factors

    def __len__(self) -> int:
        return len(self._frames)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        frame = self._frames[index]
        factor = self._factors.get(frame.config_type, 1.0)
        return frame if factor == 1.0 else frame.replace(weight=factor * frame.weight)


def weighted(frames: Sequence[Frame], factors: Mapping[str, float]) -> Sequence[Frame]:
    """`Weighted` where there are factors, else the frames themselves."""
    return Weighted(frames, factors) if factors else frames
