"""Hessians and Hessian-vector products."""

from __future__ import annotations

import mlx.core as mx
import numpy as np

from mlpot import derivatives
from mlpot.models import Potential

from .evaluation import displaced, evaluate_all, expect_close, four_point
from .structures import every_kind

_STEP = 1e-4


def hessian(potential: Potential, seed: int = 0) -> None:
    """The Hessian is symmetric, its rows sum to zero, and it is the differences of forces."""
    for name, structure in every_kind(potential, seed).items():
        found = derivatives.hessian(potential, structure.graph(potential))
        n = len(found)
        expect_close(found, found.T, 1e-9, f"Hessian of a {name}", "its transpose")
        sums = found.reshape(n, -1, 3).sum(axis=1)
        size = max(1.0, float(np.abs(found).max()))
        expect_close(sums / size, 0.0, 1e-9, f"relative sum of Hessian rows of a {name}")
        forces = evaluate_all(potential, displaced(structure, _STEP)).forces.reshape(n, 4, n)
        expected = -four_point(forces.swapaxes(1, 2), _STEP)
        expect_close(
            found, expected, 1e-5, f"Hessian (eV/Angstrom^2) of a {name}", "-dF/dR by differences"
        )


def products(potential: Potential, seed: int = 0) -> None:
    """A Hessian-vector product is the Hessian times the vector."""
    rng = np.random.default_rng(seed + 1)
    for name, structure in every_kind(potential, seed).items():
        graph = structure.graph(potential)
        v = rng.normal(size=structure.positions.shape)
        found = np.array(derivatives.hvp(potential, graph, mx.array(v, dtype=mx.float64)))
        expected = derivatives.hessian(potential, graph) @ v.ravel()
        expect_close(found.ravel(), expected, 1e-9, f"HVP in a {name}", "Hessian times vector")


def modes_agree(potential: Potential, seed: int = 0) -> None:
    """Forward over reverse mode and reverse over reverse mode give the same product."""
    rng = np.random.default_rng(seed + 1)
    for name, structure in every_kind(potential, seed).items():
        graph = structure.graph(potential)
        v = mx.array(rng.normal(size=structure.positions.shape), dtype=mx.float64)

        def energy(positions, graph=graph):
            return potential.node_energies(graph, graph.edge_vectors(positions)).sum()

        def slope(positions, energy=energy, v=v):
            return (mx.grad(energy)(positions) * v).sum()

        expected = np.array(mx.grad(slope)(graph.positions))
        found = np.array(derivatives.hvp(potential, graph, v))
        expect_close(
            found, expected, 1e-9, f"forward-over-reverse HVP in a {name}", "reverse over reverse"
        )
