"""One moment of a trajectory on the host, as files take it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import mlx.core as mx
import numpy as np

from mlpot.units import FS

from .state import State
from .system import System


@dataclass(frozen=True)
class Frame:
    """Arrays in Angstrom, fs, eV and atomic mass units.

    Args:
        step: number of the step.
        time: fs.
        numbers, masses, node_graph: (n_atoms,).
        pbc: (n_graphs, 3).
        positions: (n_atoms, 3), wrapped.
        images: (n_atoms, 3), lattice vectors that unwrap.
        velocities: (n_atoms, 3), Angstrom/fs.
        forces: (n_atoms, 3), eV/Angstrom.
        cells: (n_graphs, 3, 3).
        energies: (n_graphs,), potential energy with E0.
    """

    step: int
    time: float
    numbers: np.ndarray
    masses: np.ndarray
    node_graph: np.ndarray
    pbc: np.ndarray
    positions: np.ndarray
    images: np.ndarray
    velocities: np.ndarray
    forces: np.ndarray
    cells: np.ndarray
    energies: np.ndarray

    @classmethod
    def of(
        cls, step: int, time: float, system: System, state: State, reference: np.ndarray
    ) -> Frame:
        """Copy a state to the host; ``reference`` is the sum of E0 of each structure."""
        return cls(
            step=step,
            time=time,
            numbers=system.numbers,
            masses=system.host_masses,
            node_graph=system.host_graph,
            pbc=system.pbc,
            positions=_host(state.positions) + system.origin,
            images=np.rint(_host(state.extra["images"])).astype(np.int32),
            velocities=_host(state.velocities) * FS,
            forces=_host(state.forces),
            cells=_host(state.cells),
            energies=_host(state.energies) + reference,
        )

    def part(self, graph: int) -> Frame:
        """One of the structures alone."""
        starts = np.searchsorted(self.node_graph, [graph, graph + 1])
        atoms = slice(int(starts[0]), int(starts[1]))
        per_atom = ("numbers", "masses", "positions", "images", "velocities", "forces")
        return replace(
            self,
            node_graph=np.zeros(starts[1] - starts[0], np.int64),
            pbc=self.pbc[graph : graph + 1],
            cells=self.cells[graph : graph + 1],
            energies=self.energies[graph : graph + 1],
            **{name: getattr(self, name)[atoms] for name in per_atom},
        )

    def parts(self) -> Iterator[tuple[str, slice]]:
        """Name and atoms of each structure."""
        n_graphs = len(self.pbc)
        starts = np.searchsorted(self.node_graph, np.arange(n_graphs + 1))
        for graph in range(n_graphs):
            name = "all" if n_graphs == 1 else f"replica_{graph:03d}"
            yield name, slice(int(starts[graph]), int(starts[graph + 1]))


def _host(array: mx.array) -> np.ndarray:
    return np.array(array).astype(np.float64)
