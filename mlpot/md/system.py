"""What stays the same along a trajectory: masses, which atoms belong together, what may move."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np
from jaxtyping import Float

from mlpot import kernels

from .velocities import degrees_of_freedom


class System:
    """One structure, or several (replicas) side by side, that move independently.

    Args:
        numbers: (n_atoms,) atomic numbers.
        masses: (n_atoms,), atomic mass units.
        node_graph: (n_atoms,) structure of each atom, nondecreasing from 0; one by default.
        pbc: three bools, or (n_graphs, 3).
        fixed: (n_atoms,) bool, atoms that never move; none by default.
        remove_com: take the momentum of each structure's centre of mass out at every step. Not
            for structures with fixed atoms, whose momentum is not conserved.
        no_rotation: (n_graphs,) bool, structures that do not rotate, which have so many fewer
            degrees of freedom; it is for the caller to start them so.
        positions: (n_atoms, 3), needed for ``no_rotation`` (atoms on a line rotate about two axes).
        origin: (3,), Angstrom, added to the positions of states where they leave for files.
        dtype: precision of the masses and of everything computed.

    Raises:
        ValueError: shapes that do not fit, masses that are not positive, a structure without
            atoms, or one of which all atoms are fixed.
    """

    def __init__(
        self,
        numbers,
        masses,
        *,
        node_graph: Any = None,
        pbc: Any = False,
        fixed: Any = None,
        remove_com: bool = True,
        no_rotation: Any = False,
        positions=None,
        origin: Any = (0.0, 0.0, 0.0),
        dtype: mx.Dtype = mx.float32,
    ) -> None:
        self.numbers = np.asarray(numbers, dtype=np.int64)
        self.host_masses = np.asarray(masses, dtype=np.float64)
        n_atoms = len(self.numbers)
        if self.host_masses.shape != (n_atoms,) or n_atoms == 0:
            raise ValueError(
                f"{n_atoms} atomic numbers but masses of shape {self.host_masses.shape}; "
                "each of at least one atom needs a mass"
            )
        if not (np.isfinite(self.host_masses).all() and self.host_masses.min() > 0):
            atom = int(np.argmin(np.where(np.isfinite(self.host_masses), self.host_masses, -1)))
            raise ValueError(
                f"atom {atom} has mass {self.host_masses[atom]}: every atom needs a positive mass"
            )
        self.host_graph = np.zeros(n_atoms, np.int64)
        if node_graph is not None:
            self.host_graph = np.asarray(node_graph, dtype=np.int64)
        self.n_graphs = int(self.host_graph[-1]) + 1
        self.counts = np.bincount(self.host_graph, minlength=self.n_graphs)
        if np.any(np.diff(self.host_graph) < 0) or self.counts.min() == 0:
            raise ValueError("node_graph must number the structures 0, 1, 2, ... in order")
        self.pbc = np.broadcast_to(np.asarray(pbc, dtype=bool), (self.n_graphs, 3)).copy()
        self.fixed = np.zeros(n_atoms, bool) if fixed is None else np.asarray(fixed, dtype=bool)
        self.dtype = dtype
        self.origin = np.asarray(origin, dtype=np.float64)
        self.starts = np.concatenate([[0], np.cumsum(self.counts)])
        still = np.bincount(self.host_graph, weights=self.fixed, minlength=self.n_graphs)
        # Momentum is conserved, and may be taken out, where nothing is held.
        self.without_com = (still == 0) & (self.counts > 1) & bool(remove_com)
        turning = np.broadcast_to(np.asarray(no_rotation, dtype=bool), (self.n_graphs,))
        self.host_degrees = np.array(
            [
                self._degrees(graph, bool(turning[graph]), still[graph], positions)
                for graph in range(self.n_graphs)
            ],
            dtype=np.float64,
        )
        if self.host_degrees.min() < 1:
            graph = int(np.argmin(self.host_degrees))
            raise ValueError(f"structure {graph} has no atom that may move: fix fewer atoms")
        with mx.stream(mx.cpu):
            self.masses = mx.array(self.host_masses[:, None], dtype=dtype)
            self.node_graph = mx.array(self.host_graph.astype(np.int32))
            self.degrees = mx.array(self.host_degrees, dtype=dtype)
            self._mobile = mx.array((~self.fixed)[:, None].astype(np.float64), dtype=dtype)
            totals = np.bincount(self.host_graph, weights=self.host_masses)
            inverse = np.where(self.without_com, 1.0 / totals, 0.0)
            self.inverse_total = mx.array(inverse[:, None], dtype=dtype)
            mx.eval(self.masses, self.node_graph, self.degrees, self._mobile, self.inverse_total)
        self._mobility: dict[float, mx.array] = {}
        self.equal_counts = bool(np.all(self.counts == self.counts[0]))

    def _degrees(self, graph: int, turning: bool, still: float, positions) -> float:
        own = slice(self.starts[graph], self.starts[graph + 1])
        if not self.without_com[graph]:
            return 3.0 * (self.counts[graph] - still)
        if turning and positions is not None:
            xyz = np.asarray(positions, dtype=np.float64)[own]
            return float(degrees_of_freedom(self.host_masses[own], xyz, rotation=True))
        return 3.0 * self.counts[graph] - 3.0

    @property
    def mobile(self) -> Float[mx.array, " n_atoms"]:
        """1 for atoms that may move, 0 for fixed ones."""
        return self._mobile[:, 0]

    def mobility(self, dt: float) -> Float[mx.array, "n_atoms 1"]:
        """dt over the mass, zero for fixed atoms: what forces change velocities by, a constant."""
        if dt not in self._mobility:
            values = np.where(self.fixed, 0.0, dt / self.host_masses)[:, None]
            with mx.stream(mx.cpu):
                found = mx.array(values, dtype=self.dtype)
                mx.eval(found)
            self._mobility[dt] = found
        return self._mobility[dt]

    @property
    def n_atoms(self) -> int:
        """Atoms of all structures."""
        return len(self.numbers)

    def per_graph(self, x: Float[mx.array, "n_atoms *rest"]) -> Float[mx.array, "n_graphs *rest"]:
        """Sums over the atoms of each structure."""
        if self.equal_counts:
            # Not a scatter, in which all atoms of a structure would wait for one another.
            return x.reshape(self.n_graphs, -1, *x.shape[1:]).sum(axis=1)
        order = kernels.SegmentOrder()  # node_graph is nondecreasing
        return kernels.segment_sum(x, self.node_graph, self.n_graphs, order)

    def per_atom(self, y: Float[mx.array, "n_graphs *rest"]) -> Float[mx.array, "n_any *rest"]:
        """Values of each atom's structure; of one structure only: to be broadcast, (1, ...)."""
        return y if self.n_graphs == 1 else mx.take(y, self.node_graph, axis=0)

    def rows_times(
        self, rows: Float[mx.array, "n_atoms 3"], matrices: Float[mx.array, "n_graphs 3 3"]
    ) -> Float[mx.array, "n_atoms 3"]:
        """``rows[i] @ matrices[graph of i]``, without a matmul (which may round to TF32)."""
        return (rows[:, :, None] * self.per_atom(matrices)).sum(axis=1)

    def constrain(self, velocities: Float[mx.array, "n_atoms 3"]) -> Float[mx.array, "n_atoms 3"]:
        """Velocities of fixed atoms, and of centres of mass that are held, set to zero."""
        if self.without_com.any():
            momentum = self.per_graph(self.masses * velocities)
            velocities = velocities - self.per_atom(momentum * self.inverse_total)
        return velocities * self._mobile if self.fixed.any() else velocities

    def kinetic(self, velocities: Float[mx.array, "n_atoms 3"]) -> Float[mx.array, " n_graphs"]:
        """Kinetic energies, eV."""
        return 0.5 * self.per_graph((self.masses * velocities * velocities).sum(axis=1))

    def kinetic_tensor(
        self, velocities: Float[mx.array, "n_atoms 3"]
    ) -> Float[mx.array, "n_graphs 3 3"]:
        """Sums of m v v^T, eV."""
        return self.per_graph((self.masses * velocities)[:, :, None] * velocities[:, None, :])
