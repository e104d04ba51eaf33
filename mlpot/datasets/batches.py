"""Batches of an epoch: shuffled by a seed, resumable at any step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import mlx.core as mx
import numpy as np

from mlpot.graph import Graph
from mlpot.graph.host import HostGraph

from .collating import collate, host_graph
from .frame import Frame
from .labels import Labels
from .stored import StoredFrames

#: Neighbour lists beyond this size are computed again at every use.
CACHE_BYTES = 2**30


@dataclass(frozen=True)
class Batch:
    """One step's data.

    Attributes:
        graph: the structures.
        labels: their labels.
        indices: which frames these are, in the order of the graphs.
    """

    graph: Graph
    labels: Labels
    indices: tuple[int, ...]


class Batches:
    """Cuts frames into batches of bucketed sizes.

    The order of an epoch depends on the seed and the epoch's number alone, so a run that stopped
    goes on with ``epoch(number, start=steps_done)`` and sees exactly what it would have seen.

    Args:
        frames: frames; a list, or `StoredFrames`, whose neighbour lists are those of the file.
        batch_size: frames a batch; the last batch of an epoch may have fewer.
        cutoff: Angstrom.
        E0s: energies of isolated atoms, see `collate`.
        dtype: precision of the arrays.
        seed: seed of the order.
        shuffle: False keeps the order of the frames.
        pad: pad to buckets; every batch then has ``batch_size + 1`` graphs (of its share).
        cache: keep neighbour lists in memory after their first use, up to a gibibyte.
        type_weights: factors of the weights of frames by their ``config_type``; 1 for others.
        part: ``(k, n)``: only the k-th of n shares of every batch, for processes that compute a
            batch together. A share without frames holds one frame without labels.

    Raises:
        ValueError: no frames, a batch size below 1, or a share that does not exist.
    """

    def __init__(
        self,
        frames: Sequence[Frame],
        batch_size: int,
        cutoff: float,
        *,
        E0s: Mapping[int, float] | None = None,
        dtype: mx.Dtype = mx.float32,
        seed: int = 0,
        shuffle: bool = True,
        pad: bool = True,
        cache: bool = True,
        type_weights: Mapping[str, float] | None = None,
        part: tuple[int, int] = (0, 1),
    ):
        if len(frames) == 0:
            raise ValueError("no frames to make batches of")
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        if not 0 <= part[0] < part[1]:
            raise ValueError(f"there is no share {part[0]} of {part[1]}")
        self.part, self.type_weights = part, dict(type_weights or {})
        self.frames, self.batch_size, self.cutoff = frames, batch_size, cutoff
        self.E0s = None if E0s is None else dict(E0s)
        self.dtype, self.seed, self.shuffle, self.pad = dtype, seed, shuffle, pad
        self._cache: dict[int, HostGraph] | None = {} if cache else None
        self._cached_bytes = 0

    def __len__(self) -> int:
        """Number of batches an epoch."""
        return -(-len(self.frames) // self.batch_size)

    def order(self, epoch: int) -> np.ndarray:
        """Order of the frames in an epoch, (n_frames,)."""
        if not self.shuffle:
            return np.arange(len(self.frames))
        return np.random.default_rng([self.seed, epoch]).permutation(len(self.frames))

    def epoch(self, epoch: int = 0, start: int = 0) -> Iterator[Batch]:
        """Batches of an epoch.

        Args:
            epoch: number of the epoch.
            start: batches to leave out at the beginning.
        """
        order = self.order(epoch)
        for step in range(start, len(self)):
            yield self._batch(order[step * self.batch_size : (step + 1) * self.batch_size], epoch)

    def __iter__(self) -> Iterator[Batch]:
        return self.epoch(0)

    def _host_graph(self, index: int, frame: Frame) -> HostGraph:
        if isinstance(self.frames, StoredFrames):
            return self.frames.host_graph(index, frame, self.cutoff) or host_graph(
                frame, self.cutoff
            )
        if self._cache is None:
            return host_graph(frame, self.cutoff)
        found = self._cache.get(index)
        if found is None:
            found = host_graph(frame, self.cutoff)
            if self._cached_bytes + found.n_bytes <= CACHE_BYTES:
                self._cached_bytes += found.n_bytes
                self._cache[index] = found
        return found

    def _frame(self, index: int) -> Frame:
        frame = self.frames[index]
        factor = self.type_weights.get(frame.config_type, 1.0)
        return frame if factor == 1.0 else frame.replace(weight=factor * frame.weight)

    def _batch(self, indices: np.ndarray, epoch: int) -> Batch:
        number, of = self.part
        # Every n-th, so that shares are alike where frames of a batch are in some order.
        own = indices[number::of]
        picks = [int(i) for i in (own if len(own) else indices[:1])]
        frames = [self._frame(i) for i in picks]
        graph, labels = collate(
            frames,
            self.cutoff,
            self.dtype,
            E0s=self.E0s,
            pad=self.pad,
            n_graphs=-(-self.batch_size // of) + 1,
            host_graphs=[self._host_graph(i, f) for i, f in zip(picks, frames, strict=True)],
            turn=epoch,
        )
        if len(own) == 0:
            labels, picks = labels.unknown(), []
        return Batch(graph, labels, tuple(picks))
