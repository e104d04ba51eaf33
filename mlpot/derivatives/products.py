"""Hessian-vector products for many vectors, in chunks that fit the memory."""

from __future__ import annotations

from collections.abc import Callable

import mlx.core as mx
import numpy as np
from jaxtyping import Float64

from mlpot.graph import Graph
from mlpot.models import Potential

from .second import products

#: Chunks are chosen so that the intermediate arrays of one take about so many bytes.
MEMORY_BUDGET = 2 << 30
#: No more vectors at a time than this: larger chunks are not faster.
LARGEST_CHUNK = 64
#: What the first chunk is chosen by, before anything is measured: bytes an edge and a vector. The
#: published potentials with 128 channels take 5,000 to 11,000 in float64.
EXPECTED_BYTES = 20_000


def hvps(
    potential: Potential,
    graph: Graph,
    vectors,
    chunk: int | None = None,
    memory: int = MEMORY_BUDGET,
    progress: Callable[[int, int], None] | None = None,
) -> Float64[np.ndarray, "n_vectors n_atoms 3"]:
    """Hessian of the energy times each of several vectors.

    The products of a chunk are one evaluation, vectorised over the vectors.

    Args:
        potential: the model.
        graph: one structure or a batch, in the precision of the model.
        vectors: (n_vectors, n_atoms, 3).
        chunk: how many vectors are taken at a time. By default a first chunk that surely fits
            into ``memory`` is measured, and as many follow together as then fit. This begins
            MLX's count of peak memory anew, of which there is one.
        memory: bytes for the intermediate arrays of a chunk.
        progress: called with (vectors done, all vectors) after each chunk.

    Returns:
        (n_vectors, n_atoms, 3), eV/Angstrom^2 times the unit of the vectors, float64.

    Raises:
        ValueError: vectors of another shape, or a chunk below 1.
    """
    given = np.asarray(vectors, dtype=np.float64)
    if given.ndim != 3 or given.shape[1:] != tuple(graph.positions.shape):
        raise ValueError(
            f"vectors have shape {given.shape}; expected (n_vectors, {graph.n_atoms}, 3)"
        )
    if chunk is not None and chunk < 1:
        raise ValueError(f"chunk is {chunk}; it must be at least 1")
    result = np.empty(given.shape)
    done = 0
    if chunk is None and len(given):
        expected = EXPECTED_BYTES * max(graph.n_edges, 1)
        done = int(np.clip(memory // expected, 1, min(LARGEST_CHUNK, len(given))))
        before = mx.get_active_memory()
        mx.reset_peak_memory()
        result[:done] = products(potential, graph, given[:done])
        taken = max((mx.get_peak_memory() - before) // done, 1)
        chunk = int(np.clip(memory // taken, 1, LARGEST_CHUNK))
        if progress is not None:
            progress(done, len(given))
    while done < len(given):
        part = given[done : done + (chunk or 1)]
        result[done : done + len(part)] = products(potential, graph, part)
        done += len(part)
        if progress is not None:
            progress(done, len(given))
    return result
