"""Models in mlpot: energies of given edges, and the derivatives that the phases ask for."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten, tree_unflatten

from mlpot import derivatives, io, kernels, models
from mlpot.graph import Graph

from . import model_settings
from .cases import MD_STEPS, Case
from .model_settings import TIME_STEP
from .random_numbers import weights

Function = tuple[Callable[..., dict[str, mx.array]], list[mx.array]]


class Model:
    """A model as one number per atom from positions, and what is asked of it.

    Args:
        module: holds the weights.
        nodes: (n_atoms, width) outputs from positions.
        case, arrays: what the numbers belong to.
        prefix: of the module's weight names that e3nn's lack.
    """

    def __init__(self, module, nodes, case: Case, arrays, prefix: str = "") -> None:
        self.module, self.nodes, self.prefix = module, nodes, prefix
        self.arrays = {k: mx.array(v) for k, v in arrays.items()}
        flat: Any = tree_flatten(module.parameters())
        sizes = {name.removeprefix(prefix): array.size for name, array in flat}
        drawn = weights(case.seed, sizes)
        io.load_e3nn_weights(module, {prefix + name: array for name, array in drawn.items()})
        self.names = [name for name, array in flat if array.size]
        # `mx.compile` wants what it captures evaluated.
        mx.eval(self.arrays, module.parameters())

    def energy_and_forces(self, positions: mx.array) -> tuple[mx.array, mx.array]:
        """Sum of the outputs, and minus its gradient."""
        energy, gradient = mx.value_and_grad(lambda r: self.nodes(r).sum())(positions)
        return energy, -gradient

    def trained_on_forces(self, positions: mx.array) -> tuple[mx.array, mx.array]:
        """As `energy_and_forces`, fit to be differentiated again in weights."""
        # The energy comes as a gradient too: see `derivatives.energy_forces_stress`.
        energy, gradient = mx.grad(lambda f, r: f * self.nodes(r).sum(), argnums=(0, 1))(
            mx.array(1.0), positions
        )
        return energy, -gradient

    def hessian_times(self, positions: mx.array, direction: mx.array) -> mx.array:
        """Hessian of the energy times a direction."""
        gradient = mx.grad(lambda r: self.nodes(r).sum())
        return mx.jvp(gradient, [positions], [direction])[1][0]

    def phase(self, name: str) -> Function:
        """The function of a phase and its arguments."""
        return {
            "forward": self._forward,
            "forces": self._forces,
            "cold": self._forces,
            "hvp": self._hvp,
            "train": self._train,
            "force-train": self._force_train,
        }[name]()

    def _forward(self) -> Function:
        return lambda r: {"out": self.nodes(r)}, [self.arrays["positions"]]

    def _forces(self) -> Function:
        def function(r):
            energy, forces = self.energy_and_forces(r)
            return {"energy": energy, "forces": forces}

        return function, [self.arrays["positions"]]

    def _hvp(self) -> Function:
        return (
            lambda r, v: {"hvp": self.hessian_times(r, v)},
            [self.arrays["positions"], self.arrays["direction"]],
        )

    def _train(self) -> Function:
        def loss(r, targets):
            return mx.mean((self.nodes(r) - targets) ** 2)

        return self._gradient(loss, [self.arrays["positions"], self.arrays["targets"]])

    def _force_train(self) -> Function:
        n = self.arrays["positions"].shape[0]

        def loss(r, forces):
            energy, found = self.trained_on_forces(r)
            return (energy / n) ** 2 + mx.mean((found - forces) ** 2)

        return self._gradient(loss, [self.arrays["positions"], self.arrays["forces"]])

    def _gradient(self, loss, given: list[mx.array]) -> Function:
        flat: Any = dict(tree_flatten(self.module.parameters()))
        own = [flat[name] for name in self.names]

        def function(*arguments):
            given, own = arguments[: -len(self.names)], arguments[-len(self.names) :]

            def of_weights(own):
                self.module.update(tree_unflatten(list(zip(self.names, own, strict=True))))
                return loss(*given)

            value, gradients = mx.value_and_grad(of_weights)(list(own))
            names = [name.removeprefix(self.prefix) for name in self.names]
            return {"loss": value} | dict(zip(names, gradients, strict=True))

        return function, [*given, *own]

    def molecular_dynamics(self) -> dict[str, mx.array]:
        """Velocities after some steps of velocity Verlet from rest, with unit masses."""
        r = self.arrays["positions"]
        v = mx.zeros_like(r)
        forces = self.energy_and_forces(r)[1]
        for _ in range(MD_STEPS):
            v = v + 0.5 * TIME_STEP * forces
            r = r + TIME_STEP * v
            forces = self.energy_and_forces(r)[1]
            v = v + 0.5 * TIME_STEP * forces
            mx.eval(r, v)
        return {"velocities": v}


class PotentialModel(Model):
    """A potential through mlpot's public functions."""

    def __init__(self, potential: models.Potential, graph: Graph, case: Case, arrays) -> None:
        super().__init__(potential, None, case, arrays, prefix="network.")
        self.potential, self.graph = potential, graph
        mx.eval(graph.numbers, graph.cells, graph.node_graph, graph.shifts, graph.edges.arrays())

    def _at(self, positions: mx.array) -> Graph:
        g = self.graph
        return Graph(g.numbers, positions, g.cells, g.node_graph, g.shifts, g.edges)

    def energy_and_forces(self, positions: mx.array) -> tuple[mx.array, mx.array]:
        found = derivatives.energy_forces_stress(self.potential, self._at(positions), stress=False)
        return found.interaction_energy[0], found.forces

    trained_on_forces = energy_and_forces

    def hessian_times(self, positions: mx.array, direction: mx.array) -> mx.array:
        return derivatives.hvp(self.potential, self._at(positions), direction)


def build(case: Case, arrays: dict[str, np.ndarray]) -> Model:
    """The model of a case with its weights."""
    edges = kernels.EdgeIndex.from_pairs(
        arrays["senders"], arrays["receivers"], len(arrays["positions"])
    )
    if case.name in ("potential", "cold_start"):
        return _potential(case, arrays, edges)
    network = {
        "gate_points_2102": models.gate_points.Network,
        "v2106_simple_network": models.v2106.SimpleNetwork,
        "v2106_attributed_network": models.v2106.NetworkForAGraphWithAttributes,
    }[case.name](**model_settings.arguments(case, arrays))
    ones = mx.ones((len(arrays["positions"]), 1))
    attributes = mx.array(arrays["node_attr"]) if "node_attr" in arrays else ones
    own = mx.array(arrays["edge_attr"]) if "edge_attr" in arrays else None

    def vectors(r):
        return kernels.gather(r, edges.senders) - kernels.gather(r, edges.receivers)

    def gate_points(r):
        return network.on_edges(ones, attributes, vectors(r), edges)

    # The networks' own call sorts the edges on the host each time; these are sorted already.
    order = mx.arange(edges.n_edges, dtype=mx.int32)
    batch = mx.zeros((len(arrays["positions"]),), dtype=mx.int32)
    data = {"edge_index": None} | ({} if own is None else {"edge_attr": own})

    def v2106(r):
        points = models.PointGraph(vectors(r), edges, order, batch, 1)
        return network.mp.on_edges(ones, attributes, edges, *network._edges(data, points))

    nodes = gate_points if case.name == "gate_points_2102" else v2106
    return Model(network, nodes, case, arrays)


def _potential(case: Case, arrays: dict[str, np.ndarray], edges) -> PotentialModel:
    s, n = case.settings, len(arrays["positions"])
    config = models.PotentialConfig(
        numbers=[6],
        cutoff=float(arrays["cutoff"]),
        model=models.V2106Config(
            channels=s["mul"],
            layers=s["layers"],
            lmax=s["lmax"],
            normalization="e3nn",
            radial=os.environ.get("BENCHMARK_RADIAL", "auto"),
        ),
        avg_num_neighbors=model_settings.num_neighbors(case),
        zbl=False,
    )
    graph = Graph(
        numbers=mx.full((n,), 6, dtype=mx.int32),
        positions=mx.array(arrays["positions"]),
        cells=mx.zeros((1, 3, 3)),
        node_graph=mx.zeros((n,), dtype=mx.int32),
        shifts=mx.zeros((edges.n_edges, 3)),
        edges=edges,
    )
    return PotentialModel(models.Potential(config), graph, case, arrays)
