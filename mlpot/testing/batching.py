"""Batches, padding and kernels change nothing."""

from __future__ import annotations

import mlx.core as mx
import numpy as np

from mlpot import derivatives, graph, kernels
from mlpot.models import Potential

from .backends import available_backends
from .evaluation import evaluate, expect_close, expect_zero
from .structures import atoms_at, every_kind


def _members(potential: Potential, seed: int) -> list[graph.Graph]:
    structures = list(every_kind(potential, seed).values())
    structures.insert(2, atoms_at([potential.numbers[-1]], [[1.0, 2.0, 3.0]]))
    return [s.graph(potential) for s in structures]


def batch_members(potential: Potential, seed: int = 0) -> None:
    """A batch gives what its members give; its arrays are not changed."""
    members = _members(potential, seed)
    whole = graph.batch(members)
    copies = {name: np.array(array) for name, array in whole.arrays().items()}
    together = evaluate(potential, whole)
    alone = [evaluate(potential, member) for member in members]
    for name in ("energy", "nodes", "forces", "stress"):
        expected = np.concatenate([getattr(values, name) for values in alone])
        expect_close(
            getattr(together, name), expected, 1e-10, f"{name} in a batch", "by the members"
        )
    v = np.random.default_rng(seed).normal(size=copies["positions"].shape)
    product = np.array(derivatives.hvp(potential, whole, mx.array(v, dtype=mx.float64)))
    expected, start = [], 0
    for member in members:
        part = mx.array(v[start : start + member.n_atoms], dtype=mx.float64)
        expected.append(np.array(derivatives.hvp(potential, member, part)))
        start += member.n_atoms
    expect_close(product, np.concatenate(expected), 1e-10, "HVP in a batch", "by the members")
    for name, array in whole.arrays().items():
        if not np.array_equal(np.array(array), copies[name]):
            raise AssertionError(f"evaluating a batch changed its array {name!r}")


def no_leaks(potential: Potential, seed: int = 0) -> None:
    """The energy of one structure of a batch has no gradient in the atoms of another."""
    whole = graph.batch(_members(potential, seed))
    owner = np.array(whole.node_graph)
    for k in range(whole.n_graphs):

        def energy(positions, k=k):
            return potential.interaction_energy(whole, whole.edge_vectors(positions))[k]

        gradient = np.array(mx.grad(energy)(whole.positions))
        expect_zero(gradient[owner != k], f"gradient of structure {k} in the atoms of others")


def padding(potential: Potential, seed: int = 0) -> None:
    """Padding atoms, edges and graphs change nothing and give exactly zero."""
    whole = graph.batch(_members(potential, seed))
    padded = graph.pad(whole, whole.n_atoms + 3, whole.n_edges + 7, whole.n_graphs + 2)
    plain, wide = evaluate(potential, whole), evaluate(potential, padded)
    for name in ("energy", "nodes", "forces", "stress"):
        expected, found = getattr(plain, name), getattr(wide, name)
        n = len(expected)
        expect_close(found[:n], expected, 1e-10, f"{name} with padding", "without")
        expect_zero(found[n:], f"{name} of padding")
    v = np.random.default_rng(seed).normal(size=(padded.n_atoms, 3))
    product = derivatives.hvp(potential, padded, mx.array(v, dtype=mx.float64))
    own = derivatives.hvp(potential, whole, mx.array(v[: whole.n_atoms], dtype=mx.float64))
    n = whole.n_atoms
    expect_close(np.array(product)[:n], np.array(own), 1e-10, "HVP with padding", "without")
    expect_zero(np.array(product)[n:], "HVP of padding")


def backends_agree(potential: Potential, seed: int = 0) -> None:
    """Energy, forces, stress and Hessian-vector products are those of the reference kernels."""
    whole = graph.batch(_members(potential, seed))
    v = mx.array(np.random.default_rng(seed).normal(size=(whole.n_atoms, 3)), dtype=mx.float64)
    found = {}
    for backend in available_backends():
        with kernels.use(backend):
            values = evaluate(potential, whole)
            product = np.array(derivatives.hvp(potential, whole, v))
        found[backend] = {
            "energy": values.energy,
            "forces": values.forces,
            "stress": values.stress,
            "HVP": product,
        }
    for backend, values in found.items():
        for name, array in values.items():
            expected = found["reference"][name]
            expect_close(array, expected, 1e-10, f"{name} by {backend} kernels", "by reference")
