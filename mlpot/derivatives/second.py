"""Hessian-vector products and Hessians by forward mode over reverse mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import mlx.core as mx
import numpy as np
from jaxtyping import Float, Float64

from mlpot import kernels
from mlpot.graph import Graph
from mlpot.kernels.gpu import compiled_together
from mlpot.models import Potential

from .first import total_energy


def hvp(
    potential: Potential, graph: Graph, v: Float[mx.array, "n_atoms 3"]
) -> Float[mx.array, "n_atoms 3"]:
    """Hessian of the energy times a vector, lazily: the jvp of the gradient.

    Args:
        potential: the model.
        graph: one structure or a batch, in the precision of the model.
        v: (n_atoms, 3), direction.

    Returns:
        (n_atoms, 3), eV/Angstrom^2 times the unit of v.

    Raises:
        ValueError: v does not have the shape of the positions.
    """
    if tuple(v.shape) != tuple(graph.positions.shape):
        raise ValueError(
            f"v has shape {tuple(v.shape)}; give one vector per atom: {graph.positions.shape}"
        )
    gradient = mx.grad(lambda positions: total_energy(potential, graph, positions))
    primals, tangents = [graph.positions], [v.astype(graph.positions.dtype)]
    return compiled_together(mx.jvp, gradient, primals, tangents)[1][0]


def products(
    potential: Potential, graph: Graph, vectors: Float64[np.ndarray, "n_vectors n_atoms 3"]
) -> Float64[np.ndarray, "n_vectors n_atoms 3"]:
    """Hessian times each of several vectors (n_vectors, n_atoms, 3), in one evaluation.

    Where the vectors move few atoms, as the rows of a Hessian and the displacements of phonons do,
    tangents of the edges of all others are known to be zero (`mlpot.kernels.edge_tangents`).
    """
    many = kernels.each(lambda v: hvp(potential, graph, v))
    with kernels.edge_tangents(graph.edges, vectors.any(axis=(0, 2))):
        found = many(mx.array(vectors, dtype=graph.positions.dtype))
    return np.array(found).astype(np.float64)


def hessian(
    potential: Potential,
    graph: Graph,
    chunk: int = 16,
    rows: Sequence[int] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Float[np.ndarray, "n_rows n_columns"]:
    """Second derivatives of the energy with respect to positions.

    Args:
        potential: the model.
        graph: one structure, in the precision of the model (float64 recommended).
        chunk: how many rows are computed at a time; memory grows with it.
        rows: atoms whose three rows each are wanted; all by default.
        progress: called with (rows done, rows wanted) after each chunk.

    Returns:
        (3 len(rows), 3 n_atoms), eV/Angstrom^2, float64.

    Raises:
        ValueError: chunk below 1 or a row that is no atom.
    """
    if chunk < 1:
        raise ValueError(f"chunk is {chunk}; it must be at least 1")
    n_atoms = graph.n_atoms
    atoms = np.arange(n_atoms) if rows is None else np.asarray(rows, dtype=int)
    if np.any((atoms < 0) | (atoms >= n_atoms)):
        raise ValueError(f"rows {list(atoms)} name an atom outside 0..{n_atoms - 1}")
    wanted = (3 * atoms[:, None] + np.arange(3)).ravel()
    result = np.empty((len(wanted), 3 * n_atoms))
    for start in range(0, len(wanted), chunk):
        part = wanted[start : start + chunk]
        directions = np.zeros((len(part), 3 * n_atoms))
        directions[np.arange(len(part)), part] = 1.0
        found = products(potential, graph, directions.reshape(-1, n_atoms, 3))
        result[start : start + len(part)] = found.reshape(len(part), -1)
        if progress is not None:
            progress(start + len(part), len(wanted))
    return result
