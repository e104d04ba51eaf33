"""Energy, forces and stress by one reverse pass."""

from __future__ import annotations

from dataclasses import dataclass

import mlx.core as mx
import numpy as np
from jaxtyping import Float

from mlpot import kernels
from mlpot.graph import Graph
from mlpot.kernels.gpu import compiled_together
from mlpot.models import Potential


@dataclass(frozen=True)
class Results:
    """Lazy results of `energy_forces_stress`.

    Args:
        interaction_energy: (n_graphs,), eV, without E0.
        node_energies: (n_atoms,), eV, without E0.
        forces: (n_atoms, 3), eV/Angstrom.
        stress: (n_graphs, 3, 3), eV/Angstrom^3, +dE/dstrain / V; zero where there is no volume;
            None if not asked for.
        source: the potential and the graph.
    """

    interaction_energy: Float[mx.array, " n_graphs"]
    node_energies: Float[mx.array, " n_atoms"]
    forces: Float[mx.array, "n_atoms 3"]
    stress: Float[mx.array, "n_graphs 3 3"] | None
    source: tuple[Potential, Graph]

    @property
    def energy(self) -> Float[np.ndarray, " n_graphs"]:
        """Total energy with E0, (n_graphs,), eV, float64; evaluates the interaction energy."""
        potential, graph = self.source
        interaction = np.array(self.interaction_energy).astype(np.float64)
        return interaction + potential.reference_energy(graph)


def total_energy(potential: Potential, graph: Graph, positions: mx.array) -> mx.array:
    """Sum of all interaction energies as a function of positions: what derivatives act on."""
    return potential.node_energies(graph, graph.edge_vectors(positions)).sum()


def energy_forces_stress(potential: Potential, graph: Graph, stress: bool = True) -> Results:
    """Energy, forces and stress of every structure of a graph.

        F = -dE/dR        stress = (dE/d strain) / V

    One reverse pass through positions and a symmetric strain. Nothing is evaluated.

    Args:
        potential: the model.
        graph: one structure or a batch, in the precision of the model.
        stress: whether the stress is wanted.

    Returns:
        Lazy results.
    """
    return compiled_together(_energy_forces_stress, potential, graph, stress)


def _energy_forces_stress(potential: Potential, graph: Graph, stress: bool) -> Results:
    dtype = graph.positions.dtype

    # The node energies are returned as the gradient to a factor of one on each: in a nested
    # derivative, as for the loss of a training step, MLX gives what `value_and_grad` returns as
    # value the gradient zero, without a word; its gradients have all derivatives.
    def energy(factors, positions, *strain):
        symmetric = 0.5 * (strain[0] + strain[0].swapaxes(1, 2)) if strain else None
        nodes = potential.node_energies(graph, graph.edge_vectors(positions, symmetric))
        return (factors * nodes).sum()

    factors = mx.ones((graph.n_atoms,), dtype=dtype)
    if stress:
        strain = mx.zeros((graph.n_graphs, 3, 3), dtype=dtype)
        nodes, d_positions, d_strain = mx.grad(energy, argnums=(0, 1, 2))(
            factors, graph.positions, strain
        )
        volumes = graph.volumes()[:, None, None]
        solid = volumes > 0
        tensor = mx.where(solid, d_strain / mx.where(solid, volumes, mx.ones_like(volumes)), 0.0)
        tensor = tensor.astype(dtype)
    else:
        nodes, d_positions = mx.grad(energy, argnums=(0, 1))(factors, graph.positions)
        tensor = None
    order = kernels.SegmentOrder()  # node_graph is nondecreasing
    per_graph = kernels.segment_sum(nodes, graph.node_graph, graph.n_graphs, order)
    return Results(per_graph, nodes, -d_positions, tensor, (potential, graph))
