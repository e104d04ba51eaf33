"""Several processes that train one model together, over MLX's distributed engine.

Every process (rank) computes a share of each batch. Two sums over the ranks, of the numbers of
labels and of the gradient, give each of them what one process would have computed for the whole
batch, so all hold the same model at every step. Rank 0 alone writes and prints.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten, tree_unflatten

# What launchers tell their processes: how many there are.
_SIZES = ("MLX_WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
_WORDS = 4096  # bytes of a message


class Ranks:
    """The processes of a run, and which of them this one is.

    Args:
        group: of MLX; None for one process alone.

    Attributes:
        rank: number of this process, from 0.
        size: number of processes.
    """

    def __init__(self, group: Any = None) -> None:
        self._group = group
        self.rank: int = 0 if group is None else group.rank()
        self.size: int = 1 if group is None else group.size()

    @property
    def first(self) -> bool:
        """Whether this process writes and prints."""
        return self.rank == 0

    def sum(self, array: mx.array) -> mx.array:
        """Sum over all processes, lazily; the array itself where there is one."""
        if self.size == 1:
            return array
        return mx.distributed.all_sum(array, group=self._group)

    def sum_tree(self, tree: Any) -> Any:
        """Sums of all arrays of a tree, lazily, in one message for each precision."""
        if self.size == 1:
            return tree
        leaves: Any = tree_flatten(tree)
        summed: dict[str, mx.array] = {}
        for dtype in sorted({str(array.dtype) for _, array in leaves}):
            same = [(name, array) for name, array in leaves if str(array.dtype) == dtype]
            joined = self.sum(mx.concatenate([array.reshape(-1) for _, array in same]))
            start = 0
            for name, array in same:
                summed[name] = joined[start : start + array.size].reshape(array.shape)
                start += array.size
        return tree_unflatten([(name, summed[name]) for name, _ in leaves])

    def gather(self, values: np.ndarray) -> np.ndarray:
        """Small integers of all processes, (size, *shape); waits for all."""
        wanted = np.asarray(values, dtype=np.int32)
        if self.size == 1:
            return wanted[None]
        # A sum of what only one of them fills: the operation that every backend has.
        rows = np.zeros((self.size, *wanted.shape), np.int32)
        rows[self.rank] = wanted
        found = self.sum(mx.array(rows))
        mx.eval(found)
        return np.array(found)

    def share_bytes(self, data: bytes | None) -> bytes:
        """What rank 0 holds, for all; others give None."""
        if self.size == 1:
            assert data is not None
            return data
        length = int(self.gather(np.array(len(data or b"")))[0])
        words = np.zeros(-(-length // 4), np.uint32)
        if data is not None:
            words.view(np.uint8)[:length] = np.frombuffer(data, np.uint8)
        found = self.sum(mx.array(words))
        mx.eval(found)
        return np.array(found).view(np.uint8)[:length].tobytes()

    def share_arrays(self, arrays: Mapping[str, mx.array]) -> dict[str, mx.array]:
        """The arrays of rank 0, bit by bit, for all."""
        if self.size == 1:
            return dict(arrays)
        shared = {}
        for name, array in sorted(arrays.items()):
            bits = array.reshape(-1).view(mx.uint8)
            padding = mx.zeros(-bits.size % 4, mx.uint8)
            words = mx.concatenate([bits, padding]).view(mx.uint32)
            words = self.sum(words if self.first else mx.zeros_like(words))
            bits = words.view(mx.uint8)[: bits.size]
            shared[name] = bits.view(array.dtype).reshape(array.shape)
            mx.eval(shared[name])
        return shared

    def agree(self, problem: str | None) -> None:
        """Wait for all; if any of them has a problem all raise, so that none waits forever.

        Raises:
            ValueError: naming the problem of the first process that has one.
        """
        if self.size == 1:
            return
        text = (problem or "").encode()[:_WORDS]
        row = np.zeros(_WORDS, np.uint8)
        row[: len(text)] = np.frombuffer(text, np.uint8)
        said = self.gather(row.view(np.int32)).view(np.uint8)
        for rank, message in enumerate(said):
            words = message.tobytes().rstrip(b"\0").decode(errors="replace")
            if words:
                raise ValueError(words if rank == 0 else f"process {rank}: {words}")

    def __enter__(self) -> Ranks:
        return self

    def __exit__(self, kind, error, traceback) -> None:
        """``with ranks:`` around what any of them may fail at: all go on, or all raise."""
        if self.size == 1 or (error is not None and not isinstance(error, Exception)):
            return
        self.agree(None if error is None else str(error) or type(error).__name__)


def find_ranks() -> Ranks:
    """The processes that were started together by ``mlx.launch`` or ``mpirun``; else this one.

    Raises:
        ValueError: several were started, but they cannot reach each other.
    """
    wanted = max([int(os.environ.get(name) or 1) for name in _SIZES])
    hostfile = os.environ.get("MLX_HOSTFILE", "")
    told = hostfile and os.path.isfile(hostfile) and os.path.getsize(hostfile) > 1
    if wanted == 1 and not told and "MLX_IBV_DEVICES" not in os.environ:
        return Ranks()
    try:
        group = mx.distributed.init()
    except RuntimeError as error:
        raise ValueError(f"processes that were started together cannot connect: {error}") from error
    if group.size() < max(wanted, 2):
        raise ValueError(
            f"{max(wanted, 2)} processes were started together, but MLX found no backend that "
            "joins them: start them with mlx.launch --backend ring, nccl or jaccl, or install MPI"
        )
    return Ranks(group)
