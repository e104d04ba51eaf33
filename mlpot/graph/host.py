"""The arrays of a graph on the host, where batches and padding are put together."""

from __future__ import annotations

from dataclasses import dataclass, fields

import mlx.core as mx
import numpy as np

from mlpot import kernels

from .graph import Graph


@dataclass(frozen=True)
class HostGraph:
    """A `Graph` as numpy arrays: same fields, floats in float64, indices in int64."""

    numbers: np.ndarray
    positions: np.ndarray
    cells: np.ndarray
    node_graph: np.ndarray
    shifts: np.ndarray
    senders: np.ndarray
    receivers: np.ndarray

    @classmethod
    def of(cls, graph: Graph | HostGraph) -> HostGraph:
        """Copy a graph to the host (evaluates it)."""
        if isinstance(graph, HostGraph):
            return graph

        def floats(array: mx.array) -> np.ndarray:
            wide = array if array.dtype == mx.float64 else array.astype(mx.float32)
            return np.array(wide).astype(np.float64)

        def integers(array: mx.array) -> np.ndarray:
            return np.array(array).astype(np.int64)

        return cls(
            numbers=integers(graph.numbers),
            positions=floats(graph.positions),
            cells=floats(graph.cells),
            node_graph=integers(graph.node_graph),
            shifts=floats(graph.shifts),
            senders=integers(graph.edges.senders),
            receivers=integers(graph.edges.receivers),
        )

    @property
    def n_bytes(self) -> int:
        """Memory of the arrays."""
        return sum(getattr(self, field.name).nbytes for field in fields(self))

    @classmethod
    def join(cls, graphs: list[HostGraph]) -> HostGraph:
        """Put graphs behind one another, in order."""
        atoms = np.cumsum([0] + [len(g.numbers) for g in graphs])
        counts = np.cumsum([0] + [len(g.cells) for g in graphs])

        def cat(name: str, offsets: np.ndarray | None = None) -> np.ndarray:
            parts = [getattr(g, name) for g in graphs]
            if offsets is not None:
                parts = [part + offset for part, offset in zip(parts, offsets, strict=False)]
            return np.concatenate(parts)

        return cls(
            numbers=cat("numbers"),
            positions=cat("positions"),
            cells=cat("cells"),
            node_graph=cat("node_graph", counts),
            shifts=cat("shifts"),
            senders=cat("senders", atoms),
            receivers=cat("receivers", atoms),
        )

    def to_graph(self, dtype: mx.Dtype) -> Graph:
        """Move to MLX with floats in the given precision."""
        return Graph(
            numbers=mx.array(self.numbers.astype(np.int32)),
            positions=mx.array(self.positions, dtype=dtype),
            cells=mx.array(self.cells, dtype=dtype),
            node_graph=mx.array(self.node_graph.astype(np.int32)),
            shifts=mx.array(self.shifts, dtype=dtype),
            edges=kernels.EdgeIndex.from_pairs(self.senders, self.receivers, len(self.numbers)),
        )
