"""Forces and Hessian-vector products without building their operations anew at each call."""

from __future__ import annotations

from collections.abc import Hashable

import mlx.core as mx
from jaxtyping import Float

from mlpot.graph import Graph
from mlpot.kernels import native
from mlpot.models import Potential

from .first import energy_forces_stress
from .records import Records
from .second import hvp


class _Replayed:
    """A derivative of one potential with its records."""

    def __init__(self, potential: Potential) -> None:
        self.potential = potential
        self._records = Records(potential)

    @property
    def n_records(self) -> int:
        """How many sizes are recorded now."""
        return len(self._records)


class ReplayedForces(_Replayed):
    """`energy_forces_stress` of one potential, recorded for sizes of graphs that come often.

    Args:
        potential: the model.
    """

    def __call__(self, graph: Graph, stress: bool) -> tuple[mx.array, mx.array, mx.array | None]:
        """Node energies (n_atoms,), forces (n_atoms, 3) and stress (n_graphs, 3, 3) or None.

        Args:
            graph: in the precision of the potential.
            stress: whether the stress is wanted.

        Returns:
            Lazy arrays, as those of `energy_forces_stress`.
        """

        def results(arrays: dict[str, mx.array]) -> dict[str, mx.array]:
            energies, forces, tensor = self._plain(Graph.from_arrays(arrays), stress)
            found = {"energies": energies, "forces": forces}
            return found if tensor is None else found | {"stress": tensor}

        run = self._records.find((*_size(graph), stress), results)
        if run is None:
            return self._plain(graph, stress)
        found = run(graph.arrays())
        return found["energies"], found["forces"], found.get("stress")

    def _plain(self, graph: Graph, stress: bool) -> tuple[mx.array, mx.array, mx.array | None]:
        lazy = energy_forces_stress(self.potential, graph, stress=stress)
        return lazy.node_energies, lazy.forces, lazy.stress


class ReplayedProducts(_Replayed):
    """`hvp` of one potential, recorded for sizes of graphs that come often.

    What follows a mode, searches a saddle point or runs Lanczos asks for one product after the
    other: a record takes half the time for small systems.

    Args:
        potential: the model.
    """

    def __call__(
        self, graph: Graph, v: Float[mx.array, "n_atoms 3"]
    ) -> Float[mx.array, "n_atoms 3"]:
        """Hessian times a vector (n_atoms, 3), lazily: as `hvp`.

        Args:
            graph: in the precision of the potential.
            v: the direction, in this precision.
        """

        def product(arrays: dict[str, mx.array], vector: dict[str, mx.array]):
            found = hvp(self.potential, Graph.from_arrays(arrays), vector["v"])
            if native.refusal(vector["v"]) is None:
                (found,) = native.share_passes([found])
            return {"product": found}

        run = self._records.find((*_size(graph), str(v.dtype)), product)
        if run is None:
            return hvp(self.potential, graph, v)
        return run(graph.arrays(), {"v": v})["product"]


def _size(graph: Graph) -> tuple[Hashable, ...]:
    return (graph.n_atoms, graph.n_edges, graph.n_graphs, str(graph.positions.dtype))
