"""Padding to a few sizes, so that compiled functions are traced a few times only."""

from __future__ import annotations

import numpy as np

from .graph import Graph
from .host import HostGraph

#: Length of padding edges in Angstrom: every model is exactly zero there.
PADDING_LENGTH = 1000.0


def bucket_size(n: int) -> int:
    """Smallest bucket that holds n: 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, ...

    Four sizes an octave, so at most a quarter (on average a tenth) is padding.

    Args:
        n: a count, not negative.

    Raises:
        ValueError: n is negative.
    """
    if n < 0:
        raise ValueError(f"a size cannot be negative, got {n}")
    if n <= 8:
        return 8
    step = 1 << ((n - 1).bit_length() - 3)
    return -(-n // step) * step


def host_pad(
    graph: HostGraph, n_atoms: int | None, n_edges: int | None, n_graphs: int | None
) -> HostGraph:
    """As `pad`, in numpy."""
    have = {
        "n_atoms": len(graph.numbers),
        "n_edges": len(graph.senders),
        "n_graphs": len(graph.cells),
    }
    least = {
        "n_atoms": have["n_atoms"] + 1,
        "n_edges": have["n_edges"],
        "n_graphs": have["n_graphs"] + 1,
    }
    asked = {"n_atoms": n_atoms, "n_edges": n_edges, "n_graphs": n_graphs}
    size = {key: bucket_size(least[key]) if n is None else n for key, n in asked.items()}
    for key, n in size.items():
        if n < least[key]:
            extra = "" if key == "n_edges" else " and padding needs one more"
            raise ValueError(
                f"cannot pad to {key}={n}: the graph has {have[key]}{extra}; "
                f"use at least {least[key]}"
            )
    extra_atoms, extra_edges, extra_graphs = (size[key] - have[key] for key in have)
    # Spread over all padding atoms: kernels that work receiver by receiver stay balanced.
    ends = have["n_atoms"] + np.arange(extra_edges) * extra_atoms // max(extra_edges, 1)
    return HostGraph.join(
        [
            graph,
            HostGraph(
                numbers=np.zeros(extra_atoms, np.int64),
                positions=np.zeros((extra_atoms, 3)),
                cells=np.tile(PADDING_LENGTH * np.eye(3), (extra_graphs, 1, 1)),
                node_graph=np.full(extra_atoms, extra_graphs - 1),
                shifts=np.tile([1.0, 0.0, 0.0], (extra_edges, 1)),
                senders=ends - have["n_atoms"],
                receivers=ends - have["n_atoms"],
            ),
        ]
    )


def pad(
    graph: Graph,
    n_atoms: int | None = None,
    n_edges: int | None = None,
    n_graphs: int | None = None,
) -> Graph:
    """Pad a graph with atoms, edges and graphs that contribute exactly nothing.

    Padding atoms have number 0 and belong to the last graph; padding edges join a padding atom
    to its own image 1000 Angstrom away, beyond every cutoff, so no edge mask is needed:
    the atom mask is ``graph.numbers > 0``.

    Args:
        graph: what to pad.
        n_atoms: atoms afterwards, at least one more than now; the next bucket by default.
        n_edges: edges afterwards; the next bucket by default.
        n_graphs: graphs afterwards, at least one more than now; the next bucket by default.

    Raises:
        ValueError: a size is too small.
    """
    dtype = graph.positions.dtype
    return host_pad(HostGraph.of(graph), n_atoms, n_edges, n_graphs).to_graph(dtype)
