"""Pairs of atoms in bins, looked for with MLX's operations."""

from __future__ import annotations

from typing import NamedTuple

import mlx.core as mx
import numpy as np

from .cell_grid import CellGrid
from .pairs import inverse

#: Places that spread out writes of candidates that are no pairs.
_SPILL = 1024


class FoundPairs(NamedTuple):
    """Pairs behind one another in the order of their receivers, lazily.

    Args:
        senders: (size,), meaningless from ``total`` on, as the next two are.
        receivers: (size,).
        shifts: (size, 3).
        counts: (n_atoms,), pairs of each atom, also those without room.
        total: scalar, of all atoms.
        needed: (5,), see `mlpot.graph.DevicePairs.build`.
    """

    senders: mx.array
    receivers: mx.array
    shifts: mx.array
    counts: mx.array
    total: mx.array
    needed: mx.array


class CellSearch:
    """Looks for pairs in the bins around that of each atom, periodic images included.

    Args:
        grid: the bins.
        node_graph: (n_atoms,) structure of each atom.
        pbc: (n_graphs, 3).
        dtype: of positions, cells and shifts.
        half: keep only one of the two directions of each pair.
        block: candidates that are looked at together; memory grows with it.
    """

    def __init__(
        self,
        grid: CellGrid,
        node_graph: np.ndarray,
        pbc: np.ndarray,
        dtype: mx.Dtype,
        half: bool,
        block: int,
    ) -> None:
        self.grid, self.dtype, self.half, self.block = grid, dtype, half, block
        self._n_atoms = len(node_graph)

        def real(values) -> mx.array:
            return mx.array(np.asarray(values, np.float64), dtype=dtype)

        def whole(values) -> mx.array:
            return mx.array(np.asarray(values).astype(np.int32))

        graph = node_graph
        self._constants: dict[str, mx.array] = {
            "full": real(grid.full),
            "periodic": whole(pbc[graph]),
            "bins": whole(grid.bins[graph]),
            "first": whole(grid.first[graph]),
            "widths": real(np.where(pbc, 1.0, grid.widths)[graph]),
            "origins": real(np.where(pbc, 0.0, grid.origins)[graph]),
            "graph": whole(graph),
            "offsets": whole(grid.offsets),
            "checked": whole(grid.checked),
            "reach": real(grid.reach),
            "all_bins": real(grid.bins),
            "all_widths": real(grid.widths),
            "all_periodic": whole(pbc),
        }
        mx.eval(self._constants)

    def fullest(self, positions: mx.array, cells: mx.array) -> mx.array:
        """Scalar, atoms in the fullest bin."""
        return self._occupancy(self._bins(positions, cells)[0]).max()

    def search(self, positions: mx.array, cells: mx.array, room: int, size: int) -> FoundPairs:
        """All pairs; lazily.

        Args:
            positions: (n_atoms, 3), Angstrom.
            cells: (n_graphs, 3, 3), Angstrom.
            room: atoms that a bin may hold.
            size: pairs that there is room for.
        """
        c, n_atoms = self._constants, self._n_atoms
        number, place, wraps, full = self._bins(positions, cells)
        table, fullest = self._table(number, room)
        lattice = mx.take(full, c["graph"], axis=0)
        wrapped = positions - (wraps[:, :, None] * lattice).sum(axis=1)
        # A row behind the last atom for empty places.
        padded = mx.concatenate([wrapped, mx.full((1, 3), 1e6, dtype=self.dtype)])
        n_offsets = len(self.grid.offsets)
        width = n_offsets * room
        wide = mx.int64 if n_atoms * width >= 2**31 - _SPILL else mx.int32
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
        return FoundPairs(senders, receivers, shifts, mx.concatenate(counts), total, needed)

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
        # What is not a number must not become an index; it is reported in `search`.
        scaled = mx.where(mx.isfinite(scaled), scaled, mx.zeros_like(scaled))
        highest = (c["bins"] - 1).astype(self.dtype)
        place = mx.clip(mx.floor(scaled), mx.zeros_like(highest), highest).astype(mx.int32)
        return self._number(c["first"], c["bins"], place), place, wraps, rows

    @staticmethod
    def _number(first, bins, place):
        return first + (place[..., 0] * bins[..., 1] + place[..., 1]) * bins[..., 2] + place[..., 2]

    def _occupancy(self, number: mx.array) -> mx.array:
        return (
            mx.zeros((self.grid.n_bins,), dtype=mx.int32)
            .at[number]
            .add(mx.ones(number.shape, dtype=mx.int32))
        )

    def _table(self, number: mx.array, room: int) -> tuple[mx.array, mx.array]:
        """(n_bins + 1, room) atoms of each bin, n_atoms where there is none; fullest."""
        n_atoms = self._n_atoms
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
        c = self._constants
        bins = c["bins"][rows][:, None, :]
        moved = place[rows][:, None, :] + c["offsets"][None]
        image = mx.floor(moved.astype(mx.float32) / bins.astype(mx.float32)).astype(mx.int32)
        image = image * c["periodic"][rows][:, None, :]
        inside = moved - image * bins
        good = mx.all((inside >= 0) & (inside < bins), axis=-1)
        number = self._number(c["first"][rows][:, None], bins, inside)
        return mx.where(good, number, self.grid.n_bins), image

    def _near(self, rows, place, table, padded, lattice) -> tuple[mx.array, mx.array]:
        """Which candidates of some atoms are pairs, (n_rows, n_offsets * room)."""
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
        near = (squared < self.grid.radius**2) & (others < self._n_atoms) & ~itself
        same = (near & (squared == 0)).sum().astype(mx.int32)
        if self.half:
            sign = mx.sign(image)
            positive = 9 * sign[:, :, 0] + 3 * sign[:, :, 1] + sign[:, :, 2] > 0
            near = near & ((others > atoms) | ((others == atoms) & positive[:, :, None]))
        return near.reshape(n_rows, -1), same

    def _edges(self, index, table, place, wraps) -> tuple[mx.array, mx.array, mx.array]:
        """Sender, receiver and shift of chosen candidates."""
        c, room = self._constants, table.shape[1]
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
        sender = mx.minimum(table.reshape(-1)[number * room + slot], self._n_atoms - 1)
        return sender, receiver, image.astype(self.dtype) + wraps[receiver] - wraps[sender]

    def _narrow(self, full: mx.array) -> mx.array:
        """1 if a bin of the present cells is narrower than the plan needs."""
        c = self._constants
        dual = inverse(full)
        heights = mx.rsqrt((dual * dual).sum(axis=1))
        periodic = c["all_periodic"] > 0
        width = heights * mx.where(periodic, 1.0 / c["all_bins"], c["all_widths"])
        short = (width * c["reach"] < self.grid.radius) & (c["checked"] > 0)
        return mx.any(short).astype(mx.int32)
