"""The edge list as kernels want it: sorted by receiver, with both CSR forms."""

from __future__ import annotations

from dataclasses import dataclass, fields

import mlx.core as mx
import numpy as np
from jaxtyping import Int

from .segment_order import SegmentOrder


def check_array(name: str, array: mx.array, rows: int, of: str, columns: int) -> None:
    """Refuse an array of a convolution that kernels would read beyond its end.

    Args:
        name: of the array.
        array: what is to be (rows, columns).
        rows: one for each node or edge.
        of: "nodes" or "edges".
        columns: what the specification names.

    Raises:
        ValueError: another shape.
    """
    if array.ndim != 2:
        raise ValueError(f"{name} has the shape {tuple(array.shape)}; it needs two axes")
    if array.shape[1] != columns:
        raise ValueError(f"{name} has {array.shape[1]} columns, the convolution needs {columns}")
    if array.shape[0] != rows:
        raise ValueError(f"{name} has {array.shape[0]} rows, there are {rows} {of}")


@dataclass(frozen=True)
class EdgeIndex:
    """Senders and receivers of directed edges, sorted by receiver.

    Args:
        senders: (n_edges,) int32, source node of each edge.
        receivers: (n_edges,) int32, destination node, nondecreasing.
        receiver_ptr: (n_nodes + 1,) int32, edges of receiver n are
            ``receiver_ptr[n] : receiver_ptr[n + 1]``.
        sender_perm: (n_edges,) int32, edge numbers ordered by sender; in any order for one sender.
        sender_ptr: (n_nodes + 1,) int32, offsets into ``sender_perm``.
    """

    senders: Int[mx.array, " n_edges"]
    receivers: Int[mx.array, " n_edges"]
    receiver_ptr: Int[mx.array, " n_ptr"]
    sender_perm: Int[mx.array, " n_edges"]
    sender_ptr: Int[mx.array, " n_ptr"]

    @classmethod
    def from_pairs(cls, senders, receivers, n_nodes: int) -> EdgeIndex:
        """Build the index on the host.

        Args:
            senders: (n_edges,) integers, numpy or MLX.
            receivers: (n_edges,) integers, nondecreasing.
            n_nodes: number of nodes.

        Raises:
            ValueError: lengths differ, an index is out of range, or receivers are not sorted.
        """
        senders = np.asarray(senders).astype(np.int64).reshape(-1)
        receivers = np.asarray(receivers).astype(np.int64).reshape(-1)
        if len(senders) != len(receivers):
            raise ValueError(
                f"{len(senders)} senders but {len(receivers)} receivers: an edge needs one of each"
            )
        if len(senders):
            low = min(senders.min(), receivers.min())
            high = max(senders.max(), receivers.max())
            if low < 0 or high >= n_nodes:
                raise ValueError(
                    f"edge index {low if low < 0 else high} is outside 0..{n_nodes - 1}; "
                    "check the edge list or n_nodes"
                )
            if np.any(np.diff(receivers) < 0):
                raise ValueError(
                    "edges are not sorted by receiver; sort them first, e.g. with "
                    "order = numpy.argsort(receivers, kind='stable')"
                )

        def offsets(index: np.ndarray) -> np.ndarray:
            return np.concatenate([[0], np.cumsum(np.bincount(index, minlength=n_nodes))])

        perm = np.argsort(senders, kind="stable")
        return cls(
            *(
                mx.array(a.astype(np.int32))
                for a in (senders, receivers, offsets(receivers), perm, offsets(senders))
            )
        )

    @property
    def n_edges(self) -> int:
        """Number of edges."""
        return self.senders.shape[0]

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return self.receiver_ptr.shape[0] - 1

    @property
    def by_receiver(self) -> SegmentOrder:
        """Order of ``receivers``, for `gather` and `segment_sum`."""
        return SegmentOrder(self.receiver_ptr)

    @property
    def by_sender(self) -> SegmentOrder:
        """Order of ``senders``, for `gather` and `segment_sum`."""
        return SegmentOrder(self.sender_ptr, self.sender_perm)

    def arrays(self) -> dict[str, mx.array]:
        """The five arrays by name, for compiled functions: ``EdgeIndex(**arrays)``."""
        return {f.name: getattr(self, f.name) for f in fields(self)}
