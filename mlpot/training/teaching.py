"""Hessian-vector products of a potential as labels for another one to learn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import mlx.core as mx
import numpy as np

from mlpot import derivatives
from mlpot.datasets import Frame, collate
from mlpot.models import Potential


def label_hvps(
    frames: Iterable[Frame], teacher: Potential, n_vectors: int, seed: int = 0
) -> Iterator[Frame]:
    """Frames with Hessian-vector products that a potential gives, one after another.

    Directions are normal random numbers of unit variance, so that for a frame with the Hessian H
    the mean square of a component of H v is that of a row of H, summed over its entries.

    Args:
        frames: structures; other labels stay, isolated atoms are passed on as they are.
        teacher: knows their elements. Its precision is that of the labels.
        n_vectors: directions for each frame.
        seed: of the directions.

    Raises:
        ValueError: n_vectors below 1, or an element that the teacher does not know.
    """
    if n_vectors < 1:
        raise ValueError(f"n_vectors is {n_vectors}; give at least 1")
    rng = np.random.default_rng(seed)
    for frame in frames:
        if frame.is_isolated_atom:
            yield frame
            continue
        try:
            teacher.check_elements(np.unique(frame.numbers).tolist())
        except ValueError as error:
            raise ValueError(f"{frame.source or 'a frame'}: {error}") from None
        vectors = rng.normal(size=(n_vectors, frame.n_atoms, 3))
        with mx.stream(mx.cpu) if teacher.dtype == mx.float64 else mx.stream(mx.default_device()):
            graph, _ = collate([frame], teacher.cutoff, teacher.dtype, pad=False)
            products = derivatives.hvps(teacher, graph, vectors)
        yield frame.replace(hvp_vectors=vectors, hvps=products)
