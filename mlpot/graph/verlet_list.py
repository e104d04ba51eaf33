"""Neighbour lists with a skin, kept while atoms move and the cell changes a little."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import mlx.core as mx
import numpy as np

from .cell import check_cell
from .graph import Graph
from .host import HostGraph
from .padding import host_pad
from .structure import host_structure, reduce_positions


def capacity(n: int) -> int:
    """Least size of at least n with no more than five leading bits, and at least 8.

    Sixteen sizes an octave: on average a thirtieth of the edges is padding. From 2^17 on there are
    seven bits: lists of so many pairs vary little from one to the next, and padding costs more
    than another trace.
    """
    n = max(n, 8)
    step = 1 << max(0, n.bit_length() - (5 if n < 1 << 17 else 7))
    return -(-n // step) * step


class VerletList:
    """Graphs of one structure that moves.

    The list of pairs is built with ``cutoff + skin``. It holds all pairs within the cutoff while

        s (cutoff + 2 d) < cutoff + skin,

    where F is the map from the lattice at the time of building to the present one, d the largest
    displacement of an atom beyond that map and a common translation, and s the largest singular
    value of the inverse of F (1 if the cell did not change). Displacements are counted without
    lattice vectors along periodic directions, so wrapping atoms into the cell is no motion.

    Examples:
        >>> pairs = VerletList(cutoff=5.0, skin=0.5)
        >>> graph = pairs.graph(numbers, positions, cell, pbc)

    Args:
        cutoff: Angstrom.
        skin: Angstrom; 0 builds the list at every call.

    Attributes:
        n_builds: how often the list was built.

    Raises:
        ValueError: a cutoff that is not positive or a negative skin.
    """

    def __init__(self, cutoff: float, skin: float = 0.5) -> None:
        if not (np.isfinite(cutoff) and cutoff > 0):
            raise ValueError(f"cutoff must be a positive length in Angstrom, got {cutoff!r}")
        if not (np.isfinite(skin) and skin >= 0):
            raise ValueError(f"skin must be a length in Angstrom, 0 or more, got {skin!r}")
        self.cutoff = float(cutoff)
        self.skin = float(skin)
        self.n_builds = 0
        self._reference: HostGraph | None = None
        self._pbc = np.zeros(3, dtype=bool)
        self._whole: Graph | None = None

    def graph(
        self,
        numbers,
        positions,
        cell=None,
        pbc: bool | Sequence[bool] | np.ndarray = False,
        *,
        dtype: mx.Dtype = mx.float32,
        trimmed: bool = True,
        padded: bool = True,
    ) -> Graph:
        """The graph of the structure as it is now.

        Its positions are equivalent to the given ones and close to the origin: moved by lattice
        vectors and a common translation.

        Args:
            numbers: (n_atoms,) atomic numbers, 1..118.
            positions: (n_atoms, 3), Angstrom.
            cell: None, (3,) or (3, 3) lattice vectors as rows, Angstrom.
            pbc: bool or three bools.
            dtype: precision of positions, cells and shifts.
            trimmed: drop pairs beyond the cutoff. They contribute nothing, but cost work;
                without trimming only positions and cell are new from call to call.
            padded: pad atoms and edges to few sizes; the structure is then graph 0 of 2.

        Raises:
            ValueError: as `mlpot.graph.build`.
        """
        rows, periodic = check_cell(cell, pbc)
        present = self._follow(np.asarray(numbers), positions, rows, periodic)
        if present is None:
            present = self._build(numbers, positions, rows, periodic)
        if trimmed:
            return self._finish(self._trim(present), dtype, padded)
        if self._whole is None or not padded or self._whole.positions.dtype != dtype:
            whole = self._finish(present, dtype, padded)
            self._whole = whole if padded else self._whole
            return whole
        return self._move(self._whole, present)

    def _build(self, numbers, positions, rows: np.ndarray, periodic: np.ndarray) -> HostGraph:
        """Make the list anew; the present structure becomes the reference."""
        self._reference = self._whole = None
        reduced = reduce_positions(positions, rows, periodic)
        self._reference = host_structure(numbers, reduced, rows, periodic, self.cutoff + self.skin)
        self._pbc = periodic
        self.n_builds += 1
        return self._reference

    def _follow(
        self, numbers: np.ndarray, positions, rows: np.ndarray, periodic: np.ndarray
    ) -> HostGraph | None:
        """The list with present positions and cell, None where it may lack pairs."""
        old = self._reference
        if (
            old is None
            or not np.array_equal(periodic, self._pbc)
            or not np.array_equal(numbers, old.numbers)
        ):
            return None
        xyz = np.asarray(positions, dtype=np.float64)
        if xyz.shape != old.positions.shape or not np.all(np.isfinite(xyz)):
            return None
        before, now = old.cells[0][periodic], rows[periodic]
        mapped, stretch = old.positions, 1.0
        if not np.array_equal(before, now):
            deformation = np.eye(3) + np.linalg.pinv(before) @ (now - before)
            smallest = np.linalg.svd(deformation, compute_uv=False)[-1]
            if not smallest > 0.5:
                return None
            mapped, stretch = old.positions @ deformation, 1.0 / smallest
        moved = xyz - mapped
        if len(now):
            moved -= np.round(moved @ np.linalg.pinv(now)) @ now
        moved -= moved.mean(axis=0)
        largest = np.sqrt(np.max(np.sum(moved * moved, axis=1)))
        if not stretch * (self.cutoff + 2.0 * largest) < self.cutoff + self.skin:
            return None
        return replace(old, positions=mapped + moved, cells=rows[None])

    def _trim(self, graph: HostGraph) -> HostGraph:
        """Without the pairs beyond the cutoff."""
        xyz = graph.positions
        vectors = xyz[graph.senders] - xyz[graph.receivers] + graph.shifts @ graph.cells[0]
        squared = np.sum(vectors * vectors, axis=1)
        if len(squared) and squared.min() == 0.0:
            pair = int(np.argmin(squared))
            raise ValueError(
                f"atoms {graph.receivers[pair]} and {graph.senders[pair]} are at the same place "
                f"(shift {graph.shifts[pair].astype(int).tolist()}); remove the duplicate"
            )
        near = squared < self.cutoff**2
        return replace(
            graph,
            shifts=graph.shifts[near],
            senders=graph.senders[near],
            receivers=graph.receivers[near],
        )

    def _finish(self, graph: HostGraph, dtype: mx.Dtype, padded: bool) -> Graph:
        """To MLX, padded or not."""
        if padded:
            n_atoms = len(graph.numbers)
            # Several padding atoms share the padding edges: no receiver has very many.
            extra = max(1, n_atoms // 32)
            graph = host_pad(graph, n_atoms + extra, capacity(len(graph.senders)), 2)
        return graph.to_graph(dtype)

    def _move(self, whole: Graph, present: HostGraph) -> Graph:
        """A padded graph with new positions and cell of its first structure."""
        dtype = whole.positions.dtype
        n_extra = whole.n_atoms - len(present.positions)
        xyz = np.concatenate([present.positions, np.zeros((n_extra, 3))])
        cells = mx.concatenate([mx.array(present.cells, dtype=dtype), whole.cells[1:]])
        return replace(whole, positions=mx.array(xyz, dtype=dtype), cells=cells)
