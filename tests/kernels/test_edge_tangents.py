"""Tangents of few edges: the same Hessian-vector products by every kind of model."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from mlpot import derivatives, graph, kernels
from mlpot.kernels.edge_tangents import moved_edges
from mlpot.models import Potential, PotentialConfig


def crystal(n: int = 3):
    """A rattled cube of carbon and oxygen, n^3 atoms."""
    rng = np.random.default_rng(0)
    grid = np.stack(np.meshgrid(*[np.arange(n)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    xyz = 1.6 * grid + rng.normal(scale=0.05, size=(n**3, 3))
    numbers = rng.choice([6, 8], size=n**3)
    return graph.build(numbers, xyz, 1.6 * n * np.eye(3), True, cutoff=2.1, dtype=mx.float64)


def potential_of(name: str, radial: str) -> Potential:
    mx.random.seed(2)
    model = {"name": name, "channels": 4, "lmax": 2, "layers": 2, "radial": radial}
    config = {"numbers": [6, 8], "cutoff": 2.1, "model": model, "zbl": True}
    potential = Potential(PotentialConfig.model_validate(config))
    potential.set_dtype(mx.float64)
    return potential


@pytest.mark.parametrize("radial", ["exact", "table"])
@pytest.mark.parametrize("name", ["v2106", "gate_points", "nequip"])
@pytest.mark.parametrize("backend", ["native", "reference"])
def test_products_with_few_moved_atoms(name, radial, backend):
    potential = potential_of(name, radial)
    with mx.stream(mx.cpu), kernels.use(backend):
        built = crystal()
        vectors = np.zeros((3, built.n_atoms, 3))
        vectors[0, 4, 0] = 1.0
        vectors[1, 4] = [0.3, -0.2, 0.1]
        vectors[2, 5, 2] = -1.0
        plain = [
            np.array(derivatives.hvp(potential, built, mx.array(v, dtype=mx.float64)))
            for v in vectors
        ]
        with kernels.edge_tangents(built.edges, vectors.any(axis=(0, 2))):
            assert moved_edges(built.n_edges) is not None
        found = derivatives.hvps(potential, built, vectors, chunk=3)
    np.testing.assert_allclose(found, plain, atol=1e-12 * np.abs(plain).max())
    assert np.abs(plain[0][20]).max() > 0  # far beyond its own edges


def test_the_whole_hessian_and_where_nothing_is_gained():
    potential = potential_of("v2106", "exact")
    with mx.stream(mx.cpu):
        built = crystal()
        columns = [
            np.array(derivatives.hvp(potential, built, mx.array(v, dtype=mx.float64))).ravel()
            for v in np.eye(81).reshape(81, 27, 3)
        ]
        for chunk in (2, 50):
            found = derivatives.hessian(potential, built, chunk=chunk)
            np.testing.assert_allclose(found, columns, atol=1e-12 * np.abs(columns).max())
        with kernels.edge_tangents(built.edges, np.ones(27, dtype=bool)):
            assert moved_edges(built.n_edges) is None
        with kernels.edge_tangents(built.edges, np.arange(27) == 0):
            known = moved_edges(built.n_edges)
            assert known is not None and known.edges.n_edges == 12
            assert moved_edges(built.n_edges + 1) is None
        assert moved_edges(built.n_edges) is None


def test_rows_and_their_places():
    built = crystal()
    with mx.stream(mx.cpu), kernels.edge_tangents(built.edges, np.arange(27) == 0):
        known = moved_edges(built.n_edges)
        assert known is not None
        values = mx.random.normal((built.n_edges, 2))
        back = np.array(known.spread(known.rows(values)))
    touched = (np.array(built.edges.senders) == 0) | (np.array(built.edges.receivers) == 0)
    np.testing.assert_array_equal(back[touched], np.array(values)[touched])
    assert np.all(back[~touched] == 0)
