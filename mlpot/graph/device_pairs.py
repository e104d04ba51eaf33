"""Pairs of one or many structures, found on the device with a cell list."""

from __future__ import annotations

import mlx.core as mx
import numpy as np

from mlpot import kernels

from .cell_grid import CellGrid, plan
from .cell_search import CellSearch
from .device_pair_kernels import PairKernels, takes_search
from .graph import Graph
from .host_pairs import HostPairs
from .padding import PADDING_LENGTH
from .pairs import Pairs
from .verlet_list import capacity

#: Candidates that are looked at together; memory grows with it.
_BLOCK = 1 << 24


class DevicePairs(HostPairs):
    """Builds `Pairs` without moving positions to the host, once sizes are known.

    Atoms are sorted into bins (`CellGrid`); the candidates of an atom are the atoms of the bins
    around its own, periodic images included, whatever the cell's shape: where a cell is thinner
    than the cutoff the same bin is visited several times with different shifts. Pairs are written
    behind one another in the order of their receivers. On GPUs that is done by a few kernels
    (`mlpot.graph.device_pair_kernels`), elsewhere, in float64 and for half lists by MLX's
    operations (`mlpot.graph.cell_search`).

    Bins (for kernels: rows of an atom's pairs) and edges have room for a number of entries; how
    much was needed comes with every list and must be looked at with `fits`, which makes room if it
    was not enough: a list that did not fit lacks pairs and must be thrown away.

    Args:
        numbers, node_graph, pbc, cutoff, skin, dtype: as for `HostPairs`.
        half: keep only one of the two directions of each pair.
        block: candidates that are looked at together; memory grows with it.
    """

    def __init__(
        self,
        numbers,
        node_graph,
        pbc,
        cutoff: float,
        skin: float,
        dtype: mx.Dtype,
        *,
        half: bool = False,
        block: int = _BLOCK,
    ) -> None:
        super().__init__(numbers, node_graph, pbc, cutoff, skin, dtype)
        self.half, self.block = half, block
        self.grid: CellGrid | None = None
        self.bin_capacity = 0
        self.capacity = 64
        self.row_capacity = 32
        self._search: CellSearch | None = None
        self._kernels: PairKernels | None = None
        self._paired = not half  # whether every edge has had one in the other direction

    def build(self, positions: mx.array, cells: mx.array) -> tuple[Pairs, mx.array]:
        """Search pairs, within cutoff + skin; lazily, but for the first time.

        Args:
            positions: (n_atoms, 3), Angstrom.
            cells: (n_graphs, 3, 3), Angstrom.

        Returns:
            The pairs, and what `fits` wants to see: (5,) int32, edges found, atoms in the
            fullest bin, whether the bins are too narrow for the present cells, pairs of atoms
            at the same place, whether a number is not finite. From kernels (6,): the most pairs
            of an atom in the place of the fullest bin, and whether a pair was found in one
            direction only.
        """
        if self.grid is None:
            self.replan(positions, cells)
        self.n_builds += 1
        tasks = len(self.numbers) * self.row_capacity + self.capacity
        if self._paired and takes_search(positions, tasks):
            return self._search_by_kernels(positions, cells)
        return self._search_by_operations(positions, cells)

    def replan(self, positions: mx.array, cells: mx.array) -> None:
        """Choose bins, and room in them, for the present cells; evaluates.

        Raises:
            ValueError: positions or cells are not finite.
        """
        xyz = np.array(positions).astype(np.float64)
        rows = np.where(self.pbc[:, :, None], np.array(cells).astype(np.float64), 0.0)
        if not (np.isfinite(xyz).all() and np.isfinite(rows).all()):
            raise ValueError("positions or cells are not finite: there are no pairs to look for")
        grid = plan(xyz, self.node_graph, rows, self.pbc, self.cutoff + self.skin)
        self.grid = grid
        self._search = CellSearch(
            grid, self.node_graph, self.pbc, self.dtype, self.half, self.block
        )
        self._kernels = None
        needed = np.array(self._search.fullest(positions, cells))
        self.bin_capacity = max(self.bin_capacity, _roomy(int(needed)))

    def fits(self, needed: np.ndarray | None) -> bool:
        """Whether a list was complete; makes room for the next one if not.

        Args:
            needed: the second result of `build`, as numpy.

        Raises:
            ValueError: two atoms at the same place, or positions that are not finite.
        """
        assert needed is not None, "the device says how much room it needs"
        edges, fullest, narrow, equal, wild, *alone = (int(n) for n in needed)
        if wild:
            raise ValueError("positions or cells are not finite: there are no pairs to look for")
        good = True
        if alone and fullest > self.row_capacity:
            self.row_capacity, good = _roomy(fullest), False
        elif not alone and fullest > self.bin_capacity:
            self.bin_capacity, good = _roomy(fullest), False
        if edges > self.capacity:
            self.capacity, good = capacity(int(1.02 * edges) + 8), False
        if narrow:
            self.grid, good = None, False
        if good and any(alone):
            # Should a compiler round the two directions differently: MLX's operations do not care.
            self._paired = good = False
        if good and equal:
            raise ValueError(f"{equal} pairs of atoms are at the same place: remove duplicates")
        return good

    def _search_by_operations(self, positions: mx.array, cells: mx.array) -> tuple[Pairs, mx.array]:
        assert self._search is not None
        found = self._search.search(positions, cells, self.bin_capacity, self.capacity)
        graph = self._graph(
            positions,
            cells,
            found.senders,
            found.receivers,
            found.shifts,
            found.counts,
            found.total,
        )
        return Pairs(graph, positions, cells), found.needed

    def _search_by_kernels(self, positions: mx.array, cells: mx.array) -> tuple[Pairs, mx.array]:
        assert self.grid is not None
        if self._kernels is None:
            self._kernels = PairKernels(self.grid, self.node_graph, self.pbc)
        found = self._kernels.search(
            positions, cells, self.row_capacity, self.capacity, self._n_padding
        )
        edges = kernels.EdgeIndex(
            found.senders, found.receivers, found.pointers, found.perm, found.pointers
        )
        graph = self._padded(positions, cells, found.shifts, edges)
        return Pairs(graph, positions, cells), found.needed

    @property
    def _n_padding(self) -> int:
        """Padding atoms, which share the padding edges."""
        return max(1, len(self.numbers) // 32)

    def _graph(self, positions, cells, senders, receivers, shifts, counts, total) -> Graph:
        """With padding edges behind the pairs found."""
        n_atoms, size, extra = len(self.numbers), self.capacity, self._n_padding
        real = mx.arange(size) < total
        ends = n_atoms + np.arange(size) * extra // max(size, 1)
        ends = mx.array(ends.astype(np.int32))
        far = mx.array([1.0, 0.0, 0.0], dtype=self.dtype)
        senders = mx.where(real, senders, ends)
        receivers = mx.where(real, receivers, ends)
        shifts = mx.where(real[:, None], shifts, far)
        own = mx.cumsum(counts)
        least = -(-np.arange(1, extra + 1) * size // extra)
        tail = mx.maximum(mx.minimum(total, size), mx.array(least.astype(np.int32)))
        zero = mx.zeros((1,), dtype=mx.int32)
        pointers = mx.concatenate([zero, mx.minimum(own, size), tail]).astype(mx.int32)
        order = mx.argsort(senders).astype(mx.int32)
        # Counted, not those of the receivers: rounding may find a pair in one direction only.
        ones = mx.ones((size,), dtype=mx.int32)
        out = mx.zeros((n_atoms + extra,), dtype=mx.int32).at[senders].add(ones)
        sender_pointers = mx.concatenate([zero, mx.cumsum(out)]).astype(mx.int32)
        edges = kernels.EdgeIndex(senders, receivers, pointers, order, sender_pointers)
        return self._padded(positions, cells, shifts, edges)

    def _padded(self, positions, cells, shifts, edges: kernels.EdgeIndex) -> Graph:
        """With padding atoms and a padding graph."""
        n_graphs, extra = len(self.pbc), self._n_padding
        numbers = np.concatenate([self.numbers, np.zeros(extra)]).astype(np.int32)
        graph = np.concatenate([self.node_graph, np.full(extra, n_graphs)]).astype(np.int32)
        padding = PADDING_LENGTH * mx.eye(3, dtype=self.dtype)[None]
        return Graph(
            numbers=mx.array(numbers),
            positions=mx.concatenate([positions, mx.zeros((extra, 3), dtype=self.dtype)]),
            cells=mx.concatenate([cells, padding]),
            node_graph=mx.array(graph),
            shifts=shifts,
            edges=edges,
        )


def _roomy(n: int) -> int:
    """Room for n atoms in a bin and a few more."""
    return n + max(2, n // 6)
