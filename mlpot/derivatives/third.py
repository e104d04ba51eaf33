"""Third-order force constants along given directions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import mlx.core as mx
import numpy as np
from jaxtyping import Float, Float64

from mlpot import kernels
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


def third_order_products(
    potential: Potential,
    graph: Graph,
    u,
    vectors,
    chunk: int = 16,
    progress: Callable[[int, int], None] | None = None,
) -> Float64[np.ndarray, "n_vectors n_atoms 3"]:
    """`third_order_product` of one direction with each of several, some at a time.

    With the unit vectors as ``vectors`` this is the derivative of the Hessian along u.

    Args:
        potential: the model.
        graph: one structure or a batch, in the precision of the model (float64 recommended).
        u: (n_atoms, 3).
        vectors: (n_vectors, n_atoms, 3).
        chunk: how many are taken at a time; memory grows with it.
        progress: called with (vectors done, all vectors) after each chunk.

    Returns:
        (n_vectors, n_atoms, 3), eV/Angstrom^3 times the units of u and the vectors, float64.

    Raises:
        ValueError: a direction of another shape, or a chunk below 1.
    """
    if chunk < 1:
        raise ValueError(f"chunk is {chunk}; it must be at least 1")
    dtype = graph.positions.dtype
    along, given = np.asarray(u, dtype=np.float64), np.asarray(vectors, dtype=np.float64)
    if along.shape != tuple(graph.positions.shape) or given.shape[1:] != along.shape:
        raise ValueError(
            f"u has shape {along.shape} and vectors {given.shape}; expected "
            f"({graph.n_atoms}, 3) and (n_vectors, {graph.n_atoms}, 3)"
        )
    first = mx.array(along, dtype=dtype)
    many = kernels.each(lambda v: third_order_product(potential, graph, first, v))
    result = np.empty(given.shape)
    for start in range(0, len(given), chunk):
        part = mx.array(given[start : start + chunk], dtype=dtype)
        result[start : start + len(part)] = np.array(many(part)).astype(np.float64)
        if progress is not None:
            progress(start + len(part), len(given))
    return result
