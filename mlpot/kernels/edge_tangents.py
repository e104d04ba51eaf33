"""Forward derivatives along directions that move few edges.

Where one atom of a large structure moves, only the vectors of its own edges change. In a
Hessian-vector product along it (forward over reverse mode), the tangents of all edge arrays
(harmonics, radial functions, weights) are zero on all other edges, and their terms need a pass over
few edges instead of all.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass

import mlx.core as mx
import numpy as np

from .edges import EdgeIndex
from .segment import gather

#: More edges than this part of all are not worth the choice.
_LARGEST_PART = 0.4


@dataclass(frozen=True, eq=False)
class MovedEdges:
    """Some edges of a list.

    Args:
        chosen: (n_chosen,) int32, their numbers, ascending.
        places: (n_edges,) int32, where each edge is among them; n_chosen where it is not.
        edges: the list of them alone.
    """

    chosen: mx.array
    places: mx.array
    edges: EdgeIndex

    def rows(self, array: mx.array) -> mx.array:
        """Rows (n_chosen, ...) of an array of all edges."""
        return gather(array, self.chosen)

    def spread(self, array: mx.array) -> mx.array:
        """An array of all edges, zero beside the rows (n_chosen, ...)."""
        nothing = mx.zeros((1, *array.shape[1:]), dtype=array.dtype)
        return gather(mx.concatenate([array, nothing]), self.places)

    def index(self, index: Sequence[mx.array]) -> list[mx.array]:
        """What a convolution gets as integers, the edge list first, for these edges."""
        known = self.edges.arrays()
        return [*known.values(), *(mx.take(rows, self.chosen) for rows in index[len(known) :])]


_moved: ContextVar[MovedEdges | None] = ContextVar("mlpot_moved_edges", default=None)


@contextlib.contextmanager
def edge_tangents(edges: EdgeIndex, moved) -> Iterator[None]:
    """Within the block tangents of edge arrays are zero but on edges of moved atoms.

    For one Hessian-vector product or a batch of them, as ``mx.jvp`` of ``mx.grad``: all of
    convolutions over ``edges``, no other nesting. It is for the caller to know that it holds.

    Args:
        edges: all edges.
        moved: (n_nodes,) bool, which atoms any of the directions moves.
    """
    senders, receivers = np.array(edges.senders), np.array(edges.receivers)
    atoms = np.asarray(moved, dtype=bool)
    chosen = np.flatnonzero(atoms[senders] | atoms[receivers])
    found = None
    if 0 < len(chosen) < _LARGEST_PART * len(senders):
        places = np.full(len(senders), len(chosen), dtype=np.int32)
        places[chosen] = np.arange(len(chosen))
        few = EdgeIndex.from_pairs(senders[chosen], receivers[chosen], edges.n_nodes)
        found = MovedEdges(mx.array(chosen.astype(np.int32)), mx.array(places), few)
    token = _moved.set(found)
    try:
        yield
    finally:
        _moved.reset(token)


def moved_edges(n_edges: int) -> MovedEdges | None:
    """What is known of tangents of arrays of ``n_edges`` edges; None: they may be anywhere."""
    known = _moved.get()
    return known if known is not None and known.places.shape[0] == n_edges else None
