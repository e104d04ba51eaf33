"""Third-order force constants along given directions."""

from __future__ import annotations

from dataclasses import replace

import mlx.core as mx
from jaxtyping import Float

from mlpot.graph import Graph
from mlpot.models import Potential

from .second import hvp


def third_order_product(
    potential: Potential,
    graph: Graph,
    u: Float[mx.array, "n_atoms 3"],
    v: Float[mx.array, "n_atoms 3"],
) -> Float[mx.array, "n_atoms 3"]:
    """Third derivatives of the energy contracted with two directions, lazily.

        w[c] = sum_ab d3E / dR_a dR_b dR_c u_a v_b

    The jvp along u of the Hessian-vector product with v.

    Args:
        potential: the model.
        graph: one structure or a batch, in the precision of the model.
        u: (n_atoms, 3).
        v: (n_atoms, 3).

    Returns:
        (n_atoms, 3), eV/Angstrom^3 times the units of u and v.

    Raises:
        ValueError: a direction does not have the shape of the positions.
    """
    for name, direction in (("u", u), ("v", v)):
        if tuple(direction.shape) != tuple(graph.positions.shape):
            raise ValueError(
                f"{name} has shape {tuple(direction.shape)}; give one vector per atom: "
                f"{graph.positions.shape}"
            )

    def product(positions: mx.array) -> mx.array:
        return hvp(potential, replace(graph, positions=positions), v)

    return mx.jvp(product, [graph.positions], [u.astype(graph.positions.dtype)])[1][0]
