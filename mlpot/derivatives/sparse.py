"""The Hessian as a sparse block matrix, from fewer products than it has columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse

from mlpot.graph import Graph
from mlpot.models import Potential

from .products import hvps


def interaction_pattern(graph: Graph, hops: int) -> scipy.sparse.csr_array:
    """Which pairs of atoms can have a second derivative.

    The energy of an atom depends on atoms up to ``hops`` edges away, so two atoms have a second
    derivative only if they are at most ``2 hops`` edges apart.

    Args:
        graph: atoms and edges.
        hops: convolutions of the model.

    Returns:
        (n_atoms, n_atoms) boolean matrix, symmetric, with the diagonal.
    """
    senders, receivers = np.array(graph.edges.senders), np.array(graph.edges.receivers)
    shape = (graph.n_atoms, graph.n_atoms)
    bonds = (np.ones(len(senders), bool), (receivers, senders))
    near: Any = scipy.sparse.csr_array(bonds, shape=shape)
    near = near + near.T + scipy.sparse.eye_array(graph.n_atoms, dtype=bool, format="csr")
    pattern: Any = near
    for _ in range(2 * hops - 1):
        pattern = (pattern @ near).astype(bool)
    return scipy.sparse.csr_array(pattern)


def color_columns(pattern: Any) -> np.ndarray:
    """Colours such that no row of the pattern has two columns of one colour.

    Greedy, in the order of the columns.

    Args:
        pattern: sparse boolean matrix.

    Returns:
        (n_columns,) colours 0, 1, ...
    """
    columns = scipy.sparse.csc_array(pattern)
    conflicts: Any = scipy.sparse.csr_array((columns.T @ columns).astype(bool))
    colors = np.full(conflicts.shape[0], -1)
    for column in range(conflicts.shape[0]):
        start, stop = conflicts.indptr[column], conflicts.indptr[column + 1]
        taken = np.unique(colors[conflicts.indices[start:stop]])
        taken = taken[taken >= 0]
        free = np.flatnonzero(np.append(taken, -1) != np.arange(len(taken) + 1))
        colors[column] = free[0]
    return colors


def sparse_hessian(
    potential: Potential,
    graph: Graph,
    hops: int | None = None,
    chunk: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> scipy.sparse.bsr_array:
    """Second derivatives of the energy as a sparse matrix of 3 x 3 blocks.

    Atoms that no third one sees both share a Hessian-vector product: 3 products for each colour
    of `color_columns` rather than for each atom. It pays where the structure is larger than four
    times the model's receptive field; otherwise it costs what `hessian` costs.

    Args:
        potential: the model.
        graph: one structure, in the precision of the model (float64 recommended).
        hops: an atom's energy depends on atoms so many edges away; the model's own by default.
        chunk: products at a time; by default as many as fit the memory, see `hvps`.
        progress: called with (products done, products wanted).

    Returns:
        (3 n_atoms, 3 n_atoms), eV/Angstrom^2, blocks of 3 x 3.
    """
    pattern: Any = interaction_pattern(graph, potential.hops if hops is None else hops)
    colors = color_columns(pattern)
    n_atoms, n_colors = graph.n_atoms, int(colors.max()) + 1
    probes = np.zeros((n_colors, 3, n_atoms, 3))
    for axis in range(3):
        probes[colors, axis, np.arange(n_atoms), axis] = 1.0
    products = hvps(
        potential, graph, probes.reshape(-1, n_atoms, 3), chunk=chunk, progress=progress
    ).reshape(n_colors, 3, n_atoms, 3)
    # Block (i, j) is what atom i answers to the colour of j: no other atom of it reaches i.
    rows = np.repeat(np.arange(n_atoms), np.diff(pattern.indptr))
    blocks = products[colors[pattern.indices], :, rows, :].swapaxes(1, 2)
    return scipy.sparse.bsr_array(
        (blocks, pattern.indices, pattern.indptr), shape=(3 * n_atoms, 3 * n_atoms)
    )
