"""Pairs of one or many structures, found on the host."""

from __future__ import annotations

import mlx.core as mx
import numpy as np

from .host import HostGraph
from .neighbor_list import neighbor_list
from .padding import host_pad
from .pairs import Pairs
from .verlet_list import capacity


class StructureError(ValueError):
    """One of several structures has no list of pairs.

    Args:
        graph: number of the structure.
        reason: what is wrong with it; atoms count from its first.
    """

    def __init__(self, graph: int, reason: str) -> None:
        super().__init__(f"structure {graph}: {reason}")
        self.graph, self.reason = graph, reason


class HostPairs:
    """Builds `Pairs` with vesin; sizes only grow, so that functions are traced a few times.

    Args:
        numbers: (n_atoms,) atomic numbers.
        node_graph: (n_atoms,) structure of each atom, nondecreasing.
        pbc: (n_graphs, 3) bool.
        cutoff: Angstrom.
        skin: Angstrom.
        dtype: of positions, cells and shifts.

    Attributes:
        n_builds: how often pairs were searched.
        capacity: edges in a list, padding included; 0 before the first.
    """

    def __init__(
        self, numbers, node_graph, pbc, cutoff: float, skin: float, dtype: mx.Dtype
    ) -> None:
        self.numbers, self.node_graph = np.asarray(numbers), np.asarray(node_graph)
        self.pbc = np.asarray(pbc, dtype=bool)
        self.cutoff, self.skin, self.dtype = float(cutoff), float(skin), dtype
        self.starts = np.searchsorted(self.node_graph, np.arange(len(self.pbc) + 1))
        self.capacity = 0
        self.n_builds = 0

    def build(self, positions: mx.array, cells: mx.array) -> tuple[Pairs, None]:
        """Search pairs, within cutoff + skin.

        Args:
            positions: (n_atoms, 3), Angstrom; evaluated.
            cells: (n_graphs, 3, 3), Angstrom; evaluated.

        Returns:
            The pairs, and None: nothing can overflow (see `DevicePairs.build`).

        Raises:
            ValueError: as `neighbor_list`; of several structures a `StructureError`.
        """
        xyz, rows = _host(positions), _host(cells)
        found = [self._of_one(g, xyz, rows) for g in range(len(self.pbc))]
        offsets = self.starts[:-1]
        plain = HostGraph(
            numbers=self.numbers,
            positions=xyz,
            cells=rows,
            node_graph=self.node_graph,
            shifts=np.concatenate([shifts for _, _, shifts in found]).astype(np.float64),
            senders=np.concatenate([s + o for (s, _, _), o in zip(found, offsets, strict=True)]),
            receivers=np.concatenate([r + o for (_, r, _), o in zip(found, offsets, strict=True)]),
        )
        if len(plain.senders) > self.capacity:
            # A little room, as the number varies from list to list.
            self.capacity = capacity(int(1.02 * len(plain.senders)) + 8)
        self.n_builds += 1
        extra = max(1, len(xyz) // 32)
        padded = host_pad(plain, len(xyz) + extra, self.capacity, len(self.pbc) + 1)
        graph = padded.to_graph(self.dtype)
        return Pairs(graph, positions, cells), None

    def _of_one(self, graph: int, xyz: np.ndarray, rows: np.ndarray) -> tuple:
        own = xyz[self.starts[graph] : self.starts[graph + 1]]
        try:
            return neighbor_list(own, rows[graph], self.pbc[graph], self.cutoff + self.skin)
        except ValueError as error:
            if len(self.pbc) == 1:
                raise
            raise StructureError(graph, str(error)) from error

    def fits(self, needed: np.ndarray | None) -> bool:
        """Whether a list was complete: always."""
        return True


def _host(array: mx.array) -> np.ndarray:
    wide = array if array.dtype == mx.float64 else array.astype(mx.float32)
    return np.array(wide).astype(np.float64)
