"""Lists of pairs that stay on the device while atoms move, and when they still hold."""

from __future__ import annotations

from dataclasses import dataclass, replace

import mlx.core as mx
from jaxtyping import Float

from .device_excess import takes_excess, worst_excess
from .graph import Graph

_REFERENCE = "reference_"


@dataclass(frozen=True)
class Pairs:
    """A padded graph, and where its atoms and cells were when it was built.

    The last graph and the atoms after the first ``n_atoms`` are padding (see `mlpot.graph.pad`).

    Args:
        graph: with all pairs closer than cutoff + skin at the reference.
        reference_positions: (n_atoms, 3), Angstrom, without padding.
        reference_cells: (n_graphs, 3, 3), Angstrom, without padding.
    """

    graph: Graph
    reference_positions: Float[mx.array, "n_atoms 3"]
    reference_cells: Float[mx.array, "n_graphs 3 3"]

    def arrays(self) -> dict[str, mx.array]:
        """All arrays by name."""
        return self.graph.arrays() | {
            f"{_REFERENCE}positions": self.reference_positions,
            f"{_REFERENCE}cells": self.reference_cells,
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, mx.array]) -> Pairs:
        """The inverse of `arrays`."""
        own = {name: array for name, array in arrays.items() if name.startswith(_REFERENCE)}
        rest = {name: array for name, array in arrays.items() if name not in own}
        return cls(graph=Graph.from_arrays(rest), **own)

    def moved(
        self,
        positions: Float[mx.array, "n_atoms 3"],
        cells: Float[mx.array, "n_graphs 3 3"] | None = None,
    ) -> Graph:
        """The graph with new positions, and cells if they have changed, of its real parts."""
        graph = self.graph
        joined = mx.concatenate([positions, graph.positions[positions.shape[0] :]])
        if cells is None:
            return replace(graph, positions=joined)
        return replace(
            graph, positions=joined, cells=mx.concatenate([cells, graph.cells[cells.shape[0] :]])
        )

    def excess_of_positions(self, positions: Float[mx.array, "n_atoms 3"], skin: float) -> mx.array:
        """`excess` where cells are those of the reference: 2 d - skin."""
        if takes_excess(positions):
            return worst_excess(positions, self.reference_positions, skin)
        away = positions - self.reference_positions
        worst = 2.0 * mx.sqrt(mx.max(mx.sum(away * away, axis=1))) - skin
        return mx.where(worst <= 0, worst, mx.maximum(worst, 1e-6))

    def excess(
        self,
        positions: Float[mx.array, "n_atoms 3"],
        cells: Float[mx.array, "n_graphs 3 3"],
        pbc: Float[mx.array, "n_graphs 3"],
        cutoff: float,
        skin: float,
    ) -> mx.array:
        """By how much the list falls short, as a scalar on the device, Angstrom.

            s (cutoff + 2 d) - (cutoff + skin)

        for the largest displacement d of an atom beyond the deformation F of its cell, and an
        upper bound s on the stretching by the inverse of F, 1 + |F^-1 - 1| (Frobenius norm). The
        list holds all pairs within the cutoff while this is not above zero. Unlike in
        `VerletList`, displacements of the whole and by lattice vectors count.

        Args:
            positions: (n_atoms, 3), of the atoms of the list, not wrapped since it was built.
            cells: (n_graphs, 3, 3).
            pbc: (n_graphs, 3), 1 for periodic directions, 0 for others.
            cutoff: Angstrom.
            skin: Angstrom.
        """
        n_graphs, n_atoms = cells.shape[0], positions.shape[0]
        if takes_excess(positions):
            references = (self.reference_cells, pbc, self.graph.node_graph[:n_atoms])
            return worst_excess(
                positions, self.reference_positions, skin, cutoff, cells, *references
            )
        # Rows of open directions carry no edges: any full-rank choice that both share.
        filler = (1.0 - pbc)[:, :, None] * mx.eye(3, dtype=cells.dtype)
        before, now = self.reference_cells + filler, cells + filler
        back = product(inverse(now), before)  # F^-1, rows: r_old = r_new @ back
        away = back - mx.eye(3, dtype=cells.dtype)
        stretch = 1.0 + mx.sqrt((away * away).sum(axis=(1, 2)))
        forth = product(inverse(before), now)
        if n_graphs > 1:
            node_graph = self.graph.node_graph[:n_atoms]
            forth, stretch = mx.take(forth, node_graph, axis=0), mx.take(stretch, node_graph)
        mapped = (self.reference_positions[:, :, None] * forth).sum(axis=1)
        moved = positions - mapped
        distance = mx.sqrt((moved * moved).sum(axis=1))
        # NaN compares as false everywhere: a state that is not finite must not pass.
        worst = mx.max(stretch * (cutoff + 2.0 * distance)) - (cutoff + skin)
        return mx.where(worst <= 0, worst, mx.maximum(worst, 1e-6))


def inverse(matrices: Float[mx.array, "n 3 3"]) -> Float[mx.array, "n 3 3"]:
    """Inverses, by cofactors: MLX's own runs on the CPU only."""
    a, b, c = matrices[:, 0], matrices[:, 1], matrices[:, 2]
    columns = [mx.linalg.cross(b, c), mx.linalg.cross(c, a), mx.linalg.cross(a, b)]
    determinant = (a * columns[0]).sum(axis=-1)[:, None, None]
    return mx.stack(columns, axis=2) / determinant


def product(a: Float[mx.array, "n 3 3"], b: Float[mx.array, "n 3 3"]) -> Float[mx.array, "n 3 3"]:
    """Matrix products in full precision on every device."""
    return (a[:, :, :, None] * b[:, None, :, :]).sum(axis=2)
