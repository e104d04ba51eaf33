"""Inputs of the point networks: positions with an edge list, or positions alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np
from jaxtyping import Float, Int

from mlpot import graph, kernels

from .point_convolution import sorted_edges


@dataclass(frozen=True)
class PointGraph:
    """What a network needs of e3nn's data dictionary.

    Args:
        vectors: (n_edges, 3), from receiver to sender.
        edges: sorted by receiver.
        order: (n_edges,), where each edge was in the given list.
        batch: (n_nodes,), graph of each node.
        n_graphs: number of graphs.
        batch_order: of ``batch``, where it is nondecreasing.
    """

    vectors: Float[mx.array, "n_edges 3"]
    edges: kernels.EdgeIndex
    order: Int[mx.array, " n_edges"]
    batch: Int[mx.array, " n_nodes"]
    n_graphs: int
    batch_order: kernels.SegmentOrder | None = None

    def pool(
        self, features: Float[mx.array, "n_nodes dim"], num_nodes: float
    ) -> Float[mx.array, "n_graphs dim"]:
        """Sum over the nodes of each graph, divided by sqrt(num_nodes)."""
        summed = kernels.segment_sum(features, self.batch, self.n_graphs, self.batch_order)
        return summed / num_nodes**0.5


def point_graph(data: Mapping[str, Any], max_radius: float) -> PointGraph:
    """Edges of e3nn's data dictionary.

    Args:
        data: ``pos`` (n_nodes, 3); optional ``batch`` (n_nodes,) graph of each node;
            ``edge_index`` (2, n_edges) senders and receivers, with ``edge_shifts`` (n_edges, 3)
            integer cell shifts of the senders and ``cell`` (3, 3) or (n_graphs, 3, 3) in
            periodic systems. Without ``edge_index`` all pairs within ``max_radius`` in a graph
            are neighbours.
        max_radius: unit of ``pos``.

    Returns:
        Edge vectors that are differentiable in ``pos`` and ``cell``.

    Raises:
        ValueError: a key is missing or has a shape that does not fit.
    """
    if "pos" not in data:
        raise ValueError(f"data has the keys {sorted(data)}; 'pos' is needed")
    positions = data["pos"]
    n = positions.shape[0]
    batch = np.array(data["batch"]) if "batch" in data else np.zeros(n, dtype=np.int64)
    if batch.shape != (n,):
        raise ValueError(f"batch has the shape {batch.shape}; give one number per node: ({n},)")
    n_graphs = int(batch.max()) + 1 if n else 1
    if "edge_index" in data:
        senders, receivers = data["edge_index"][0], data["edge_index"][1]
    else:
        senders, receivers = _all_neighbors(np.array(positions), batch, max_radius)
    edges, order = sorted_edges(senders, receivers, n)
    ends = kernels.gather(positions, edges.senders, edges.by_sender)
    vectors = ends - kernels.gather(positions, edges.receivers, edges.by_receiver)
    shifts = data.get("edge_shifts")
    if shifts is not None:
        if "cell" not in data:
            raise ValueError("data has edge_shifts but no cell; give both")
        cells = mx.broadcast_to(data["cell"].reshape(-1, 3, 3), (n_graphs, 3, 3))
        of_edge = mx.array(batch[np.array(edges.receivers)].astype(np.int32))
        rows = kernels.gather(shifts.astype(positions.dtype), order)
        vectors = vectors + mx.sum(rows[:, :, None] * kernels.gather(cells, of_edge), axis=1)
    ordered = kernels.SegmentOrder() if np.all(np.diff(batch) >= 0) else None
    return PointGraph(vectors, edges, order, mx.array(batch.astype(np.int32)), n_graphs, ordered)


def _all_neighbors(positions: np.ndarray, batch: np.ndarray, max_radius: float):
    senders, receivers = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for member in np.unique(batch):
        nodes = np.flatnonzero(batch == member)
        found = graph.neighbor_list(positions[nodes], None, False, max_radius)
        senders.append(nodes[found[0]])
        receivers.append(nodes[found[1]])
    return np.concatenate(senders), np.concatenate(receivers)
