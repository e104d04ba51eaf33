"""The virial of each atom."""

from __future__ import annotations

import mlx.core as mx
from jaxtyping import Float

from mlpot import kernels
from mlpot.graph import Graph
from mlpot.models import Potential


def virials(potential: Potential, graph: Graph) -> Float[mx.array, "n_atoms 3 3"]:
    """Virial of each atom, symmetric, lazily.

        W_i = - 1/2 sum_{e at i} sym(r_e (dE/dr_e)^T)

    The virial of an edge goes half to each of its two atoms; the sum over the atoms of a structure
    is -V times its stress. With three-body and farther interactions no division among atoms is
    unique; sums over parts much larger than the interactions are.

    Args:
        potential: the model.
        graph: one structure or a batch, in the precision of the model.

    Returns:
        (n_atoms, 3, 3), eV.
    """
    vectors = graph.edge_vectors()
    pull = mx.grad(lambda r: potential.node_energies(graph, r).sum())(vectors)
    outer = vectors[:, :, None] * pull[:, None, :]
    flat = (0.25 * (outer + outer.swapaxes(1, 2))).reshape(-1, 9)
    edges = graph.edges
    at_receivers = kernels.segment_sum(flat, edges.receivers, graph.n_atoms, edges.by_receiver)
    at_senders = kernels.segment_sum(flat, edges.senders, graph.n_atoms, edges.by_sender)
    return -(at_receivers + at_senders).reshape(-1, 3, 3)
