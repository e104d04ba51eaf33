"""Energy, forces and stress without building their operations anew at each call."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten

from mlpot import kernels
from mlpot.graph import Graph
from mlpot.kernels.replay import Replayed, available
from mlpot.models import Potential
from mlpot.models.parameter_cache import addresses

from .first import energy_forces_stress

#: Sizes that are remembered; the least recently used are forgotten, with their records.
MOST_SIZES = 32
#: Recording takes as long as two or three plain calls, so a size is recorded when it comes again:
#: structures that are all different are computed plainly.
CALLS_BEFORE_RECORDING = 2


class ReplayedForces:
    """`energy_forces_stress` of one potential, recorded for sizes of graphs that come often.

    Building the operations in Python takes several milliseconds, more than small systems take to
    compute. A record is used only while the potential's weights lie where they lay, and the
    backend of the kernels is the same.

    Args:
        potential: the model.
    """

    def __init__(self, potential: Potential) -> None:
        self.potential = potential
        self._weights: Any = None
        self._sizes: OrderedDict[Any, list[Any]] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def n_records(self) -> int:
        """How many sizes are recorded now."""
        return sum(record is not None for _, record in self._sizes.values())

    def __call__(self, graph: Graph, stress: bool) -> tuple[mx.array, mx.array, mx.array | None]:
        """Node energies (n_atoms,), forces (n_atoms, 3) and stress (n_graphs, 3, 3) or None.

        Args:
            graph: in the precision of the potential.
            stress: whether the stress is wanted.

        Returns:
            Lazy arrays, as those of `energy_forces_stress`.
        """
        if not available():
            return self._plain(graph, stress)
        with self._lock:
            run = self._record(graph, stress)
        if run is None:
            return self._plain(graph, stress)
        found = run(graph.arrays())
        return found["energies"], found["forces"], found.get("stress")

    def _record(self, graph: Graph, stress: bool) -> Replayed | None:
        """The record for this size, made if it is its turn; None before that."""
        flat: Any = tree_flatten(self.potential.parameters())
        where = addresses([array for _, array in flat])
        state = (where, kernels.backend.chosen(), str(mx.default_stream(mx.default_device())))
        if where is None or state != self._weights:
            self._sizes.clear()
            self._weights = state
        if where is None:
            return None
        size = (graph.n_atoms, graph.n_edges, graph.n_graphs, stress, str(graph.positions.dtype))
        entry = self._sizes.setdefault(size, [0, None])
        self._sizes.move_to_end(size)
        while len(self._sizes) > MOST_SIZES:
            self._sizes.popitem(last=False)
        entry[0] += 1
        if entry[1] is None and entry[0] > CALLS_BEFORE_RECORDING:
            entry[1] = Replayed(lambda arrays: self._results(arrays, stress))
        return entry[1]

    def _results(self, arrays: dict[str, mx.array], stress: bool) -> dict[str, mx.array]:
        energies, forces, tensor = self._plain(Graph.from_arrays(arrays), stress)
        found = {"energies": energies, "forces": forces}
        return found if tensor is None else found | {"stress": tensor}

    def _plain(self, graph: Graph, stress: bool) -> tuple[mx.array, mx.array, mx.array | None]:
        lazy = energy_forces_stress(self.potential, graph, stress=stress)
        return lazy.node_energies, lazy.forces, lazy.stress
