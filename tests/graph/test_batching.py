"""Batches and padding: nothing leaks between structures, padding is out of reach."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlpot import graph

RNG = np.random.default_rng(2)


def structures(dtype=mx.float32):
    cell = np.array([[4.0, 0, 0], [1.0, 4.0, 0], [0, 0.5, 5.0]])
    return [
        graph.build([6, 1, 1], RNG.normal(size=(3, 3)), cutoff=3.0, dtype=dtype),
        graph.build([29, 29], RNG.random((2, 3)) @ cell, cell, True, cutoff=3.0, dtype=dtype),
        graph.build([18], [[0.0, 0, 0]], cutoff=3.0, dtype=dtype),
        graph.build(
            [8, 8], RNG.random((2, 3)) @ cell, cell, [True, False, True], cutoff=3.0, dtype=dtype
        ),
    ]


def test_a_batch_is_its_members():
    members = structures()
    g = graph.batch(members)
    assert (g.n_graphs, g.n_atoms) == (4, 8)
    assert g.n_edges == sum(m.n_edges for m in members)
    assert g.node_graph.tolist() == [0, 0, 0, 1, 1, 2, 3, 3]
    assert np.array_equal(g.edge_vectors(), np.concatenate([m.edge_vectors() for m in members]))
    assert np.array_equal(g.volumes(), np.concatenate([m.volumes() for m in members]))
    # Edges stay inside their structure and sorted by receiver.
    owner = np.array(g.node_graph)
    senders, receivers = np.array(g.edges.senders), np.array(g.edges.receivers)
    assert np.array_equal(owner[senders], owner[receivers])
    assert np.all(np.diff(receivers) >= 0)


def test_each_member_has_its_own_strain():
    members = structures()
    strain = mx.array(0.1 * RNG.normal(size=(4, 3, 3)).astype(np.float32))
    together = graph.batch(members).edge_vectors(strain=strain)
    alone = [m.edge_vectors(strain=strain[k : k + 1]) for k, m in enumerate(members)]
    np.testing.assert_allclose(together, np.concatenate(alone), atol=1e-6)


def test_a_batch_of_batches_is_flat():
    a, b, c, d = structures()
    nested, flat = (
        graph.batch([graph.batch([a, b]), graph.batch([c, d])]),
        graph.batch([a, b, c, d]),
    )
    for name, array in flat.arrays().items():
        assert np.array_equal(nested.arrays()[name], array), name


def test_float64_survives_batching():
    members = structures(mx.float64)
    g = graph.pad(graph.batch(members))
    assert g.positions.dtype == g.shifts.dtype == g.cells.dtype == mx.float64
    assert np.array_equal(np.array(g.positions)[:3], np.array(members[0].positions))


def test_batches_refuse_nothing_and_mixed_precision():
    with pytest.raises(ValueError, match="at least one"):
        graph.batch([])
    with pytest.raises(ValueError, match="graph 1 is"):
        graph.batch([structures()[0], structures(mx.float64)[1]])


def test_padding_is_marked_and_far_away():
    g = graph.batch(structures())
    padded = graph.pad(g, n_atoms=12, n_edges=g.n_edges + 11, n_graphs=6)
    assert (padded.n_atoms, padded.n_edges, padded.n_graphs) == (12, g.n_edges + 11, 6)
    assert padded.numbers.tolist() == [*g.numbers.tolist(), 0, 0, 0, 0]
    assert padded.node_graph.tolist()[8:] == [5] * 4
    vectors = np.array(padded.edge_vectors())
    assert np.array_equal(vectors[: g.n_edges], np.array(g.edge_vectors()))
    assert np.linalg.norm(vectors[g.n_edges :], axis=1).min() > 500
    receivers = np.array(padded.edges.receivers)
    assert np.all(np.diff(receivers) >= 0)
    # Spread over the padding atoms, each joined to itself.
    assert np.array_equal(receivers[g.n_edges :], np.array(padded.edges.senders)[g.n_edges :])
    assert np.bincount(receivers[g.n_edges :] - 8).tolist() == [3, 3, 3, 2]


def test_default_padding_takes_the_next_buckets():
    g = graph.batch(structures())
    padded = graph.pad(g)
    assert padded.n_atoms == graph.bucket_size(9) == 10
    assert padded.n_graphs == graph.bucket_size(5) == 8
    assert padded.n_edges == graph.bucket_size(g.n_edges)


@pytest.mark.parametrize("size", [{"n_atoms": 8}, {"n_edges": 1}, {"n_graphs": 4}])
def test_padding_needs_room(size):
    with pytest.raises(ValueError, match="use at least"):
        graph.pad(graph.batch(structures()), **size)


@given(st.integers(9, 10**7))
def test_buckets_hold_their_size_and_waste_at_most_a_quarter(n):
    size = graph.bucket_size(n)
    assert n <= size < 1.25 * n
    assert graph.bucket_size(size) == size
    assert graph.bucket_size(n - 1) <= size


def test_buckets_are_few():
    sizes = [graph.bucket_size(n) for n in (0, 1, 8, 9, 11, 16, 17, 33)]
    assert sizes == [8, 8, 8, 10, 12, 16, 20, 40]
    assert len({graph.bucket_size(n) for n in range(1000, 100_000, 50)}) < 30
    with pytest.raises(ValueError, match="negative"):
        graph.bucket_size(-1)
