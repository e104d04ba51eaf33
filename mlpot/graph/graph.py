"""One or many structures as arrays: what every model takes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import mlx.core as mx
from jaxtyping import Float, Int

from mlpot import kernels

_FIELDS = ("numbers", "positions", "cells", "node_graph", "shifts")


@dataclass(frozen=True)
class Graph:
    """Atoms, cells and edges of one structure or of a batch.

    Edge e points from its receiver to its sender,
    ``r_e = positions[sender] + shifts @ cells[graph] - positions[receiver]``, and
    ``0 < |r_e| < cutoff``, padding edges excepted (see `mlpot.graph.pad`).

    Args:
        numbers: (n_atoms,) int32, atomic numbers; 0 marks a padding atom.
        positions: (n_atoms, 3), Angstrom.
        cells: (n_graphs, 3, 3), Angstrom, rows are lattice vectors; zero where a direction is
            not periodic.
        node_graph: (n_atoms,) int32, the graph of each atom, nondecreasing.
        shifts: (n_edges, 3), integers stored as floats: the periodic image of each sender.
        edges: senders and receivers, sorted by receiver.
    """

    numbers: Int[mx.array, " n_atoms"]
    positions: Float[mx.array, "n_atoms 3"]
    cells: Float[mx.array, "n_graphs 3 3"]
    node_graph: Int[mx.array, " n_atoms"]
    shifts: Float[mx.array, "n_edges 3"]
    edges: kernels.EdgeIndex

    @property
    def n_atoms(self) -> int:
        """Number of atoms, padding included."""
        return self.numbers.shape[0]

    @property
    def n_edges(self) -> int:
        """Number of directed edges, padding included."""
        return self.edges.n_edges

    @property
    def n_graphs(self) -> int:
        """Number of structures, padding included."""
        return self.cells.shape[0]

    def edge_vectors(
        self,
        positions: Float[mx.array, "n_atoms 3"] | None = None,
        strain: Float[mx.array, "n_graphs 3 3"] | None = None,
    ) -> Float[mx.array, "n_edges 3"]:
        """Vectors from receivers to senders, differentiable in positions and strain.

        Args:
            positions: (n_atoms, 3), Angstrom; the graph's own by default. They must be the same
                atoms unwrapped, i.e. moved from the graph's own without adding lattice vectors.
            strain: (n_graphs, 3, 3), symmetric; maps every vector r to ``r @ (1 + strain)``,
                which strains positions and cell together.

        Returns:
            (n_edges, 3), Angstrom.
        """
        xyz = self.positions if positions is None else positions
        edges = self.edges
        ends = kernels.gather(xyz, edges.senders, edges.by_sender)
        vectors = ends - kernels.gather(xyz, edges.receivers, edges.by_receiver)
        graph = self.node_graph[edges.receivers]
        vectors = vectors + _rows_times(self.shifts, self.cells, graph)
        if strain is not None:
            vectors = vectors + _rows_times(vectors, strain, graph)
        return vectors

    def volumes(self) -> Float[mx.array, " n_graphs"]:
        """Volumes of the cells, (n_graphs,), Angstrom^3; 0 without three periodic directions."""
        a, b, c = self.cells[:, 0], self.cells[:, 1], self.cells[:, 2]
        return mx.abs(mx.sum(a * mx.linalg.cross(b, c), axis=-1))

    def astype(self, dtype: mx.Dtype) -> Graph:
        """The same graph with positions, cells and shifts in another precision."""
        return replace(
            self,
            positions=self.positions.astype(dtype),
            cells=self.cells.astype(dtype),
            shifts=self.shifts.astype(dtype),
        )

    def arrays(self) -> dict[str, mx.array]:
        """All arrays by name, flat, for compiled functions: see `from_arrays`."""
        own = {name: getattr(self, name) for name in _FIELDS}
        return own | {f"edges.{name}": array for name, array in self.edges.arrays().items()}

    @classmethod
    def from_arrays(cls, arrays: dict[str, mx.array]) -> Graph:
        """Rebuild a graph from the result of `arrays`."""
        prefix = "edges."
        edges = {k[len(prefix) :]: v for k, v in arrays.items() if k.startswith(prefix)}
        return cls(**{name: arrays[name] for name in _FIELDS}, edges=kernels.EdgeIndex(**edges))


def _rows_times(rows: mx.array, matrices: mx.array, graph: mx.array) -> mx.array:
    """``rows[e] @ matrices[graph[e]]``, without a matmul (which may round to TF32 on a GPU).

    ``graph`` is nondecreasing, as edges are sorted by receiver.
    """
    n_graphs = matrices.shape[0]
    if n_graphs == 1:
        per_edge = matrices
    else:
        flat = kernels.gather(matrices.reshape(n_graphs, 9), graph, kernels.SegmentOrder())
        per_edge = flat.reshape(-1, 3, 3)
    return mx.sum(rows[:, :, None] * per_edge, axis=1)
