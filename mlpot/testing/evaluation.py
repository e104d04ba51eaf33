"""Results as numpy arrays, and comparisons that say what is wrong in one sentence."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import mlx.core as mx
import numpy as np
from mlx.utils import tree_map

from mlpot import derivatives, graph
from mlpot.models import Potential

from .structures import Structure


@dataclass(frozen=True)
class Values:
    """Energy (interaction, eV), node energies, forces and stress of one graph, float64."""

    energy: np.ndarray
    nodes: np.ndarray
    forces: np.ndarray
    stress: np.ndarray

    def virial(self, structure: Structure) -> float:
        """Size of what cancels in the forces of a symmetric crystal, at least 1 (eV)."""
        volume = abs(np.linalg.det(structure.cell))
        return max(1.0, volume * float(np.abs(self.stress).max()))


def evaluate(potential: Potential, target: Structure | graph.Graph) -> Values:
    """Energy, forces and stress; energies (n_graphs,) and stress (n_graphs, 3, 3)."""
    atoms = target.graph(potential) if isinstance(target, Structure) else target
    results = derivatives.energy_forces_stress(potential, atoms)
    assert results.stress is not None
    return Values(
        *(
            np.array(a).astype(np.float64)
            for a in (
                results.interaction_energy,
                results.node_energies,
                results.forces,
                results.stress,
            )
        )
    )


def evaluate_all(potential: Potential, structures: Sequence[Structure]) -> Values:
    """As `evaluate` for many structures in one batch."""
    return evaluate(potential, graph.batch([s.graph(potential) for s in structures]))


def evaluate_each(potential: Potential, structures: Sequence[Structure]) -> list[Values]:
    """As `evaluate` for many structures in one batch, one result each."""
    whole = evaluate_all(potential, structures)
    ends = np.cumsum([len(s.numbers) for s in structures])[:-1]
    nodes, forces = np.split(whole.nodes, ends), np.split(whole.forces, ends)
    return [
        Values(whole.energy[k : k + 1], nodes[k], forces[k], whole.stress[k : k + 1])
        for k in range(len(structures))
    ]


def four_point(values: np.ndarray, step: float) -> np.ndarray:
    """Derivative from values at -2, -1, 1, 2 steps along the last axis."""
    return (values @ np.array([1.0, -8.0, 8.0, -1.0])) / (12 * step)


STEPS = (-2, -1, 1, 2)


def displaced(structure: Structure, step: float) -> list[Structure]:
    """The structure with each coordinate at each of `STEPS`, coordinate after coordinate."""
    found = []
    for k in range(structure.positions.size):
        for count in STEPS:
            xyz = structure.positions.copy()
            xyz.ravel()[k] += count * step
            found.append(structure.moved(xyz))
    return found


def expect_close(
    found, expected, tolerance: float, what: str, by: str = "expected", scale: float = 1.0
) -> None:
    """Raise unless arrays agree to ``tolerance * max(scale, largest expected)``.

    Raises:
        AssertionError: says where they differ most and by how much.
    """
    found = np.asarray(found, dtype=np.float64)
    expected = np.broadcast_to(np.asarray(expected, dtype=np.float64), found.shape)
    if not np.all(np.isfinite(found)):
        raise AssertionError(f"{what}: {np.sum(~np.isfinite(found))} numbers are not finite")
    if not found.size:
        return
    allowed = tolerance * max(scale, float(np.max(np.abs(expected))))
    error = np.abs(found - expected)
    worst = np.unravel_index(np.argmax(error), error.shape)
    if not error[worst] <= allowed:
        place = f" at {tuple(int(i) for i in worst)}" if worst else ""
        raise AssertionError(
            f"{what} is {found[worst]:.12g}{place}, {by} {expected[worst]:.12g}: "
            f"differs by {error[worst]:.3g}, allowed {allowed:.3g}"
        )


def expect_zero(found, what: str) -> None:
    """Raise unless every number is exactly zero.

    Raises:
        AssertionError: gives the largest number.
    """
    found = np.asarray(found, dtype=np.float64)
    if np.any(found != 0):
        raise AssertionError(f"{what} must be exactly 0, found up to {np.max(np.abs(found)):.3g}")


@contextlib.contextmanager
def precision(potential: Potential, dtype: mx.Dtype) -> Iterator[None]:
    """Weights in another precision on the CPU within a ``with`` block, as they were after it."""
    before = tree_map(lambda a: a, potential.parameters())
    with mx.stream(mx.cpu):
        potential.set_dtype(dtype)
        try:
            yield
        finally:
            potential.update(before)
