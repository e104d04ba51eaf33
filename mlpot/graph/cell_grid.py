"""How cells are divided into bins, planned on the host for a search on the device."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from .cell import complete_cell

#: Cells may shrink by this much before the plan has to be made anew.
_ROOM = 0.97


@dataclass(frozen=True)
class CellGrid:
    """Bins of several cells, numbered through, and which bins hold the neighbours of a bin.

    Args:
        radius: Angstrom; pairs closer than this are looked for.
        full: (n_graphs, 3, 3) unit vectors that complete the open directions of each cell, zero
            rows for periodic ones.
        bins: (n_graphs, 3), bins along each direction.
        first: (n_graphs,), number of each cell's first bin.
        widths: (n_graphs, 3), Angstrom, of bins along open directions; outermost bins also take
            what lies beyond.
        origins: (n_graphs, 3), Angstrom, where the bins of open directions begin.
        reach: (3,), neighbours are at most so many bins away.
        offsets: (n_offsets, 3), all displacements of bins that are searched.
        checked: (n_graphs, 3) bool, whether ``reach`` times the width of a bin has to be at least
            the radius (not where one bin holds everything).
    """

    radius: float
    full: np.ndarray
    bins: np.ndarray
    first: np.ndarray
    widths: np.ndarray
    origins: np.ndarray
    reach: np.ndarray
    offsets: np.ndarray
    checked: np.ndarray

    @property
    def n_bins(self) -> int:
        """Bins of all cells."""
        return int(self.bins.prod(axis=1).sum())


def plan(positions: np.ndarray, node_graph: np.ndarray, cells, pbc, radius: float) -> CellGrid:
    """Divide cells into bins about as wide as the radius, wider where there are few atoms.

    Args:
        positions: (n_atoms, 3), Angstrom.
        node_graph: (n_atoms,) structure of each atom, nondecreasing.
        cells: (n_graphs, 3, 3), rows of open directions zero.
        pbc: (n_graphs, 3) bool.
        radius: Angstrom.
    """
    n_graphs = len(pbc)
    full = np.zeros((n_graphs, 3, 3))
    bins = np.ones((n_graphs, 3), np.int64)
    widths = np.ones((n_graphs, 3))
    origins = np.zeros((n_graphs, 3))
    needed = np.zeros((n_graphs, 3), np.int64)
    for graph in range(n_graphs):
        own = positions[node_graph == graph]
        complete = complete_cell(cells[graph], pbc[graph])
        dual = np.linalg.inv(complete)
        heights = 1.0 / np.linalg.norm(dual, axis=0)
        along = own @ dual
        for axis in range(3):
            if pbc[graph, axis]:
                heights[axis] *= _ROOM
            else:
                full[graph, axis] = complete[axis]
                origins[graph, axis] = along[:, axis].min()
                heights[axis] = np.ptp(along[:, axis]) * heights[axis]
        bins[graph] = np.maximum(np.floor(heights / radius), 1).astype(np.int64)
        # Not many more bins than atoms: halve the finest direction.
        while bins[graph].prod() > max(8, 2 * len(own)):
            axis = int(np.argmax(bins[graph]))
            bins[graph, axis] = -(-bins[graph, axis] // 2)
        for axis in range(3):
            if pbc[graph, axis]:
                width = heights[axis] / bins[graph, axis]
                needed[graph, axis] = int(np.ceil(radius / width))
            else:
                widths[graph, axis] = max(heights[axis] / bins[graph, axis], radius / _ROOM)
                needed[graph, axis] = int(bins[graph, axis] > 1)
    reach = needed.max(axis=0)
    offsets = np.array(list(product(*(range(-m, m + 1) for m in reach))), np.int64)
    sizes = bins.prod(axis=1)
    return CellGrid(
        radius=radius,
        full=full,
        bins=bins,
        first=np.cumsum(sizes) - sizes,
        widths=widths,
        origins=origins,
        reach=reach,
        offsets=offsets,
        checked=needed > 0,
    )
