"""Pairs of one or many structures, found on the device with a cell list."""

from __future__ import annotations

import mlx.core as mx
import numpy as np

from mlpot import kernels

from .cell_grid import CellGrid, plan
from .device_pair_kernels import PairKernels, takes_search
from .graph import Graph
from .host_pairs import HostPairs
from .padding import PADDING_LENGTH
from .pairs import Pairs, inverse
from .verlet_list import capacity

#: Candidates that are looked at together; memory grows with it.
_BLOCK = 1 << 24
#: Places that spread out writes of candidates that are no pairs.
_SPILL = 1024


class DevicePairs(HostPairs):
    """Builds `Pairs` without moving positions to the host, once sizes are known.

    Atoms are sorted into bins (`CellGrid`); the candidates of an atom are the atoms of the bins
    around its own, periodic images included, whatever the cell's shape: where a cell is thinner
    than the cutoff the same bin is visited several times with different shifts. Pairs are written
    behind one another in the order of their receivers. On GPUs that is done by a few kernels
    (`mlpot.graph.device_pair_kernels`), elsewhere, in float64 and for half lists by MLX's
    operations.

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
        self._constants: dict[str, mx.array] = {}
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
        return self._search(positions, cells)

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

        def real(values) -> mx.array:
            return mx.array(np.asarray(values, np.float64), dtype=self.dtype)

        def whole(values) -> mx.array:
            return mx.array(np.asarray(values).astype(np.int32))

        graph = self.node_graph
        self._constants = {
            "full": real(grid.full),
            "periodic": whole(self.pbc[graph]),
            "bins": whole(grid.bins[graph]),
            "first": whole(grid.first[graph]),
            "widths": real(np.where(self.pbc, 1.0, grid.widths)[graph]),
            "origins": real(np.where(self.pbc, 0.0, grid.origins)[graph]),
            "graph": whole(graph),
            "offsets": whole(grid.offsets),
            "checked": whole(grid.checked),
            "reach": real(grid.reach),
            "all_bins": real(grid.bins),
            "all_widths": real(grid.widths),
            "all_periodic": whole(self.pbc),
        }
        mx.eval(self._constants)
        self._kernels = None
        needed = np.array(self._occupancy(*self._bins(positions, cells)[:1]).max())
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

    def _bins(self, positions, cells) -> tuple[mx.array, mx.array, mx.array, mx.array]:
        """Bin number, bin along each direction, lattice vectors to wrap by, full cells."""
        c = self._constants
        rows = c["full"] + cells * c["all_periodic"][:, :, None].astype(self.dtype)
        dual = mx.take(inverse(rows), c["graph"], axis=0)
        along = (positions[:, :, None] * dual).sum(axis=1)
        periodic = c["periodic"].astype(self.dtype)
        wraps = mx.floor(along) * periodic
        local = (along - wraps - c["origins"]) / c["widths"]
        scaled = mx.where(c["periodic"] > 0, local * c["bins"].astype(self.dtype), local)
        # What is not a number must not become an index; it is reported in `build`.
        scaled = mx.where(mx.isfinite(scaled), scaled, mx.zeros_like(scaled))
        highest = (c["bins"] - 1).astype(self.dtype)
        place = mx.clip(mx.floor(scaled), mx.zeros_like(highest), highest).astype(mx.int32)
        return self._number(c["first"], c["bins"], place), place, wraps, rows

    @staticmethod
    def _number(first, bins, place):
        return first + (place[..., 0] * bins[..., 1] + place[..., 1]) * bins[..., 2] + place[..., 2]

    def _occupancy(self, number: mx.array) -> mx.array:
        assert self.grid is not None
        return (
            mx.zeros((self.grid.n_bins,), dtype=mx.int32)
            .at[number]
            .add(mx.ones(number.shape, dtype=mx.int32))
        )

    def _table(self, number: mx.array) -> tuple[mx.array, mx.array]:
        """(n_bins + 1, bin_capacity) atoms of each bin, n_atoms where there is none; fullest."""
        assert self.grid is not None
        n_atoms, room = len(self.numbers), self.bin_capacity
        order = mx.argsort(number)
        occupancy = self._occupancy(number)
        sorted_bins = number[order]
        rank = mx.arange(n_atoms) - (mx.cumsum(occupancy) - occupancy)[sorted_bins]
        spare = self.grid.n_bins * room  # the row behind the last bin stays empty but for these
        slot = mx.where(rank < room, sorted_bins * room + rank, spare + room)
        table = mx.full((spare + room + 1,), n_atoms, dtype=mx.int32)
        table[slot] = order.astype(mx.int32)
        return table[: spare + room].reshape(-1, room), occupancy.max()

    def _visited(self, rows: slice, place: mx.array) -> tuple[mx.array, mx.array]:
        """Bins around those of some atoms, (n_rows, n_offsets), and their images."""
        assert self.grid is not None
        c = self._constants
        bins = c["bins"][rows][:, None, :]
        moved = place[rows][:, None, :] + c["offsets"][None]
        image = mx.floor(moved.astype(mx.float32) / bins.astype(mx.float32)).astype(mx.int32)
        image = image * c["periodic"][rows][:, None, :]
        inside = moved - image * bins
        good = mx.all((inside >= 0) & (inside < bins), axis=-1)
        number = self._number(c["first"][rows][:, None], bins, inside)
        return mx.where(good, number, self.grid.n_bins), image

    def _search(self, positions: mx.array, cells: mx.array) -> tuple[Pairs, mx.array]:
        assert self.grid is not None
        c, n_atoms, room = self._constants, len(self.numbers), self.bin_capacity
        number, place, wraps, full = self._bins(positions, cells)
        table, fullest = self._table(number)
        lattice = mx.take(full, c["graph"], axis=0)
        wrapped = positions - (wraps[:, :, None] * lattice).sum(axis=1)
        # A row behind the last atom for empty places.
        padded = mx.concatenate([wrapped, mx.full((1, 3), 1e6, dtype=self.dtype)])
        n_offsets = len(self.grid.offsets)
        width = n_offsets * room
        wide = mx.int64 if n_atoms * width >= 2**31 - _SPILL else mx.int32
        size = self.capacity
        chosen = mx.zeros((size + _SPILL,), dtype=wide)
        counts, total, equal = [], mx.array(0, dtype=mx.int32), mx.array(0, dtype=mx.int32)
        step = max(1, self.block // width)
        for start in range(0, n_atoms, step):
            rows = slice(start, min(start + step, n_atoms))
            near, same = self._near(rows, place, table, padded, lattice)
            ranks = mx.cumsum(near.astype(mx.int32), axis=1)
            own = ranks[:, -1]
            before = total + mx.cumsum(own) - own
            index = mx.arange(start * width, rows.stop * width, dtype=wide).reshape(-1, width)
            target = before[:, None] + ranks - 1
            spill = size + (index % _SPILL).astype(mx.int32)
            chosen[mx.where(near & (target < size), target, spill)] = index
            counts.append(own)
            total, equal = total + own.sum(), equal + same
        sums = positions.sum() + cells.sum()
        wild = (~mx.isfinite(sums)).astype(mx.int32)
        needed = mx.stack([total, fullest, self._narrow(full), equal, wild])
        senders, receivers, shifts = self._edges(chosen[:size], table, place, wraps)
        graph = self._graph(positions, cells, senders, receivers, shifts, counts, total)
        return Pairs(graph, positions, cells), needed

    def _near(self, rows, place, table, padded, lattice) -> tuple[mx.array, mx.array]:
        """Which candidates of some atoms are pairs, (n_rows, n_offsets * bin_capacity)."""
        assert self.grid is not None
        bins, image = self._visited(rows, place)
        n_rows = bins.shape[0]
        others = mx.take(table, bins, axis=0)
        atoms = mx.arange(rows.start, rows.stop, dtype=mx.int32)[:, None, None]
        moved = (image.astype(self.dtype)[:, :, :, None] * lattice[rows][:, None]).sum(axis=2)
        moved = moved - padded[rows][:, None, :]
        squared: mx.array | None = None
        for axis in range(3):
            away = mx.take(padded[:, axis], others, axis=0) + moved[:, :, axis : axis + 1]
            squared = away * away if squared is None else squared + away * away
        assert squared is not None
        itself = (others == atoms) & mx.all(image == 0, axis=-1)[:, :, None]
        near = (squared < self.grid.radius**2) & (others < len(self.numbers)) & ~itself
        same = (near & (squared == 0)).sum().astype(mx.int32)
        if self.half:
            sign = mx.sign(image)
            positive = 9 * sign[:, :, 0] + 3 * sign[:, :, 1] + sign[:, :, 2] > 0
            near = near & ((others > atoms) | ((others == atoms) & positive[:, :, None]))
        return near.reshape(n_rows, -1), same

    def _edges(self, index, table, place, wraps) -> tuple[mx.array, mx.array, mx.array]:
        """Sender, receiver and shift of chosen candidates."""
        c, room = self._constants, self.bin_capacity
        n_offsets = c["offsets"].shape[0]
        receiver = (index // (n_offsets * room)).astype(mx.int32)
        rest = (index - receiver.astype(index.dtype) * (n_offsets * room)).astype(mx.int32)
        offset, slot = rest // room, rest % room
        bins = c["bins"][receiver]
        moved = place[receiver] + c["offsets"][offset]
        image = mx.floor(moved.astype(mx.float32) / bins.astype(mx.float32)).astype(mx.int32)
        image = image * c["periodic"][receiver]
        inside = mx.clip(moved - image * bins, 0, bins - 1)
        number = self._number(c["first"][receiver], bins, inside)
        sender = mx.minimum(table.reshape(-1)[number * room + slot], len(self.numbers) - 1)
        return sender, receiver, image.astype(self.dtype) + wraps[receiver] - wraps[sender]

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
        own = mx.cumsum(mx.concatenate(counts))
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

    def _narrow(self, full: mx.array) -> mx.array:
        """1 if a bin of the present cells is narrower than the plan needs."""
        assert self.grid is not None
        c = self._constants
        dual = inverse(full)
        heights = mx.rsqrt((dual * dual).sum(axis=1))
        periodic = c["all_periodic"] > 0
        width = heights * mx.where(periodic, 1.0 / c["all_bins"], c["all_widths"])
        short = (width * c["reach"] < self.grid.radius) & (c["checked"] > 0)
        return mx.any(short).astype(mx.int32)


def _roomy(n: int) -> int:
    """Room for n atoms in a bin and a few more."""
    return n + max(2, n // 6)
