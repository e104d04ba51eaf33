"""Several graphs as one."""

from __future__ import annotations

from collections.abc import Sequence

from .graph import Graph
from .host import HostGraph


def batch(graphs: Sequence[Graph]) -> Graph:
    """Join graphs into one with as many structures; nothing connects them.

    Args:
        graphs: at least one, all of the same precision.

    Returns:
        A `Graph` with ``n_graphs`` the sum of the members', atoms and edges in order.

    Raises:
        ValueError: no graphs, or different precisions.
    """
    graphs = list(graphs)
    if not graphs:
        raise ValueError("cannot batch an empty list of graphs; give at least one")
    dtype = graphs[0].positions.dtype
    for index, graph in enumerate(graphs):
        if graph.positions.dtype != dtype:
            raise ValueError(
                f"graph {index} is {graph.positions.dtype}, graph 0 is {dtype}; "
                "convert with graph.astype first"
            )
    return HostGraph.join([HostGraph.of(graph) for graph in graphs]).to_graph(dtype)
