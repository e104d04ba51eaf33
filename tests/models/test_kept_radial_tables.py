"""Radial tables are kept while the weights stay, and no longer."""

from __future__ import annotations

import copy
import pickle

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten, tree_map, tree_unflatten
from radial_potentials import CUTOFF, edges_of_kind, potential, relative, structure, tables

from mlpot import derivatives, graph, kernels
from mlpot.models import radial_strategy
from mlpot.models.radial_layers import radial_layers


@pytest.fixture(autouse=True)
def on_the_cpu():
    with mx.stream(mx.cpu):
        yield


def changed_in_place(own):
    radial_layers(own.network)[1].radial_network.layer1.weight *= 2


def assigned_to_a_part(own):
    radial_layers(own.network)[1].radial_network.layer1.weight[0] = 3.0


def updated(own):
    flat = tree_flatten(own.parameters())
    own.update(tree_unflatten([(k, 1.1 * v) for k, v in flat]))


def frequencies_trained(own):
    own.network.basis.frequencies = 1.05 * own.network.basis.frequencies


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("v2106", changed_in_place),
        ("gate_points", assigned_to_a_part),
        ("nequip", updated),
        ("xplor", frequencies_trained),
    ],
)
def test_no_table_outlives_its_weights(name, change):
    own, exact, where = potential("table", name), potential("exact", name), structure()
    before = np.array(own.node_energies(where))
    kept = [table._kept._value for table in tables(own)]
    own.node_energies(where)
    assert all(t._kept._value is value for t, value in zip(tables(own), kept, strict=True))
    for p in (own, exact):
        change(p)
        mx.eval(p.parameters())
    after = np.array(own.node_energies(where))
    assert np.abs(after - before).max() > 1e-3 * np.abs(before).max()
    assert relative(after, exact.node_energies(where)) < 1e-7


def test_isolated_energies_do_not_outlive_their_weights():
    own = potential("table")
    before = own.isolated_energies()
    assert own.isolated_energies() is before
    own.network.embedding.weight = own.network.embedding.weight * 2
    mx.eval(own.parameters())
    after = own.isolated_energies()
    fresh = own.network(
        own._one_hot(mx.float64)[:2], mx.zeros((0, 3), dtype=mx.float64), own._no_edges
    )
    assert np.array_equal(np.array(after), np.array(fresh))
    assert not np.array_equal(np.array(after), np.array(before))


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))])
@pytest.mark.parametrize("dtype", [mx.float32, mx.float64])
def test_copies_have_their_own_tables(copied, dtype):
    own, where = potential("table", "gate_points"), structure(dtype)
    own.set_dtype(dtype)
    own.update(tree_map(lambda w: w * 1.1, own.parameters()))  # no numbers that float32 has
    mx.eval(own.parameters())
    before = np.array(own.node_energies(where))
    other = copied(own)
    np.testing.assert_array_equal(np.array(other.node_energies(where)), before)
    changed_in_place(other)
    assert np.abs(np.array(other.node_energies(where)) - before).max() > 1e-6
    np.testing.assert_array_equal(np.array(own.node_energies(where)), before)


def test_transformations_leave_kept_tables_alone():
    own, where = potential("table", layers=1), structure()
    before = np.array(own.node_energies(where))
    kept = [table._kept._value for table in tables(own)]
    start = own.trainable_parameters()
    index = [k for k, _ in tree_flatten(start)]

    def loss(*weights):
        own.update(tree_unflatten(list(zip(index, weights, strict=True))))
        return own.node_energies(where).sum()

    weights = [w for _, w in tree_flatten(start)]
    gradient = mx.grad(loss, argnums=list(range(len(weights))))
    assert all(g.shape == w.shape for g, w in zip(gradient(*weights), weights, strict=True))
    # A trace that evaluated anything would raise; computing it takes minutes of g++.
    assert len(mx.compile(gradient)(*weights)) == len(weights)
    own.update(start)
    np.testing.assert_array_equal(np.array(own.node_energies(where)), before)
    assert derivatives.hessian(own, where, chunk=4).shape == (15, 15)
    # The parameters are the arrays that they were, so their tables are too.
    assert all(t._kept._value is value for t, value in zip(tables(own), kept, strict=True))


def test_compiled_tables_follow_the_weights():
    """One trace serves all weights, and its gradient is that of the exact network."""
    # Without hidden layers, as each operation that is fused takes g++ two seconds.
    own = potential("table", "gate_points", radial_neurons=[])
    layer = radial_layers(own.network)[0]
    network, embedding = layer.radial_network, own.network.radial
    layer.radial_table.intervals = 128
    length = mx.array([0.9, 1.7, 2.3, 3.9], dtype=mx.float64)
    start = network.layer0.weight

    def weights(last, tabulated):
        network.layer0.weight = last
        edges = edges_of_kind(embedding, length, 2)
        if not tabulated:
            return (network(edges.scalars()) ** 3).sum()
        powers, rows, first, _ = layer.radial_table.weights(network, edges)
        return (kernels.edge_weights(powers, rows, first) ** 3).sum()

    compiled = mx.compile(mx.grad(lambda last: weights(last, True)))
    for last in (start, 2 * start, start[::-1]):
        expected = mx.grad(lambda last: weights(last, False))(last)
        assert relative(compiled(last), expected) < 1e-6


def test_few_edges_do_not_decide_for_many(monkeypatch):
    """Where a table pays from so many edges on, a small system first changes nothing later."""
    monkeypatch.setattr(radial_strategy, "_backend", lambda: "cuda")
    monkeypatch.setitem(radial_strategy.LEAST_EDGES, "cuda", structure().n_edges)
    own = potential("auto", layers=1)
    pair = graph.build(
        [13, 29], np.array([[0, 0, 0], [2.2, 0, 0]]), cutoff=CUTOFF, dtype=mx.float64
    )
    own.node_energies(pair)
    assert all(table._kept._value is None for table in tables(own))
    own.node_energies(structure())
    kept = [table._kept._value for table in tables(own)]
    assert all(value is not None for value in kept)
    own.node_energies(pair)
    own.node_energies(structure())
    assert all(t._kept._value is value for t, value in zip(tables(own), kept, strict=True))
