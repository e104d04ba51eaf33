"""Predictions of a potential for labelled frames."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import mlx.core as mx
import numpy as np

from mlpot import datasets, derivatives

from .ahead import ahead
from .disagreement import Disagreement, combine
from .errors import MEAN_ONLY, ErrorRow, Predictions, error_rows, mean_only

if TYPE_CHECKING:
    from mlpot.datasets import Frame
    from mlpot.graph import Graph
    from mlpot.models import Potential


def predict(
    potential: Potential,
    frames: Sequence[Frame],
    batch_size: int = 8,
    progress: Callable[[int], None] | None = None,
) -> Predictions:
    """Energies, forces and, where there are such labels, stresses and Hessian-vector products.

    Args:
        potential: the model.
        frames: structures; their labels decide whether stresses and, for which vectors, products
            are computed.
        batch_size: frames computed at once.
        progress: called with the number of frames done.

    Returns:
        Predictions in the order of the frames, in float64.

    Raises:
        ValueError: no frames, or an element that the potential does not know, naming the frame.
    """
    if not frames:
        raise ValueError("there are no frames to evaluate")
    check_elements(potential, frames)
    stress = any(frame.stress is not None for frame in frames)
    said = Predictions(
        reference=np.empty(len(frames)),
        energy=np.empty(len(frames)),
        forces=[],
        stress=np.zeros((len(frames), 3, 3)) if stress else None,
        hvps=[] if any(frame.hvps is not None for frame in frames) else None,
    )

    batches = datasets.Batches(
        frames,
        batch_size,
        potential.cutoff,
        dtype=potential.dtype,
        shuffle=False,
        pad=False,
        cache=False,
    )
    done = 0
    for batch in ahead(batches.epoch()):
        graph, part = batch.graph, frames[done : done + len(batch.indices)]
        result = derivatives.energy_forces_stress(potential, graph, stress=stress)
        values = [result.interaction_energy, result.forces]
        mx.eval(*values, *([result.stress] if result.stress is not None else []))
        rows = slice(done, done + len(part))
        said.reference[rows] = potential.reference_energy(graph)
        said.energy[rows] = said.reference[rows] + np.array(result.interaction_energy)
        forces = np.array(result.forces).astype(np.float64)
        ends = np.cumsum([frame.n_atoms for frame in part])
        said.forces += np.split(forces, ends[:-1])
        if said.stress is not None:
            said.stress[rows] = np.array(result.stress)
        if said.hvps is not None:
            said.hvps += _products(potential, graph, part)
        done += len(part)
        if progress is not None:
            progress(done)
    return said


def _products(
    potential: Potential, graph: Graph, frames: Sequence[Frame]
) -> list[np.ndarray | None]:
    """Hessian-vector products of the frames of a batch for all vectors of their labels."""
    known = [0 if frame.hvp_vectors is None else len(frame.hvp_vectors) for frame in frames]
    if not any(known):
        return [None] * len(frames)
    ends = np.cumsum([0, *(frame.n_atoms for frame in frames)])
    atoms = [slice(first, last) for first, last in pairwise(ends)]
    vectors = np.zeros((max(known), ends[-1], 3))  # frames of a batch do not touch each other
    for frame, own, n in zip(frames, atoms, known, strict=True):
        if n:
            vectors[:n, own] = frame.hvp_vectors
    found = derivatives.hvps(potential, graph, vectors)
    return [found[:n, own] if n else None for own, n in zip(atoms, known, strict=True)]


def predict_all(
    members: Sequence[Potential],
    frames: Sequence[Frame],
    batch_size: int = 8,
    progress: Callable[[int], None] | None = None,
) -> tuple[Predictions, Disagreement | None]:
    """As `predict` for one potential; for several the mean and what they disagree about."""
    said = [predict(one, frames, batch_size, progress) for one in members]
    return (said[0], None) if len(said) == 1 else combine(frames, said)


def check_elements(potential: Potential, frames: Sequence[Frame]) -> None:
    """Refuse frames with elements that a potential does not know.

    Raises:
        ValueError: naming the first such frame and the elements.
    """
    for frame in frames:
        try:
            potential.check_elements(np.unique(frame.numbers).tolist())
        except ValueError as error:
            raise ValueError(f"{frame.source or 'a frame'}: {error}") from None


def compare(
    set_name: str, frames: Sequence[Frame], said: Predictions, model_name: str = "model"
) -> list[ErrorRow]:
    """Errors of predictions, with the row of a model that only knows the mean energy at the end.

    Args:
        set_name: name of the set.
        frames: with labels.
        said: predictions for them.
        model_name: name of the model in the rows.

    Raises:
        ValueError: no frame has any label.
    """
    if not any(_labelled(frame) for frame in frames):
        raise ValueError(
            f"no frame of {set_name} has an energy, forces, a stress or products: "
            "name their keys (energy_key, forces_key, ...)"
        )
    baseline = mean_only(frames, said.reference)
    return [
        *error_rows(set_name, model_name, frames, said),
        *error_rows(set_name, MEAN_ONLY, frames, baseline)[:1],
    ]


def _labelled(frame: Frame) -> bool:
    labels = (frame.energy, frame.forces, frame.stress, frame.hvps)
    return any(label is not None for label in labels)
