"""Graphs of single structures: vectors, strain, volumes, precision, derivatives, errors."""

import mlx.core as mx
import numpy as np
import pytest

from mlpot import graph

RNG = np.random.default_rng(11)
CELL = np.array([[4.0, 0.3, 0.0], [-1.0, 3.5, 0.5], [0.2, -0.7, 5.0]])
NUMBERS = [29, 8, 29, 1]
POSITIONS = RNG.random((4, 3)) @ CELL


def crystal(dtype=mx.float64):
    return graph.build(NUMBERS, POSITIONS, CELL, True, cutoff=4.2, dtype=dtype)


def vectors_by_hand(g):
    e, s = g.edges, np.array(g.shifts)
    x = np.array(g.positions)
    return x[np.array(e.senders)] + s @ np.array(g.cells[0]) - x[np.array(e.receivers)]


def test_build_keeps_the_structure():
    g = crystal()
    assert (g.n_atoms, g.n_graphs) == (4, 1)
    assert g.numbers.tolist() == NUMBERS
    assert np.array_equal(np.array(g.positions), POSITIONS)
    assert np.array_equal(np.array(g.cells[0]), CELL)
    assert g.node_graph.tolist() == [0] * 4
    assert g.n_edges == len(g.shifts) == len(g.edges.receivers) > 50
    assert np.all(np.diff(np.array(g.edges.receivers)) >= 0)


def test_edge_vectors_point_to_the_sender_and_are_shorter_than_the_cutoff():
    with mx.stream(mx.cpu):
        g = crystal()
        vectors = np.array(g.edge_vectors())
    np.testing.assert_allclose(vectors, vectors_by_hand(g), atol=1e-14)
    lengths = np.linalg.norm(vectors, axis=1)
    assert lengths.min() > 0 and lengths.max() < 4.2


def test_every_edge_has_its_reverse():
    vectors = vectors_by_hand(crystal()).round(9) + 0.0
    forward = sorted(map(tuple, vectors))
    assert forward == sorted(map(tuple, -vectors + 0.0))


def test_strain_moves_vectors_as_a_strained_structure():
    strain = np.array([[0.01, 0.002, -0.003], [0.002, -0.02, 0.004], [-0.003, 0.004, 0.03]])
    deform = np.eye(3) + strain
    with mx.stream(mx.cpu):
        g = crystal()
        strained = np.array(g.edge_vectors(strain=mx.array(strain[None], dtype=mx.float64)))
        # The same edges on the deformed structure.
        moved = graph.Graph.from_arrays(
            g.arrays()
            | {
                "positions": mx.array(POSITIONS @ deform, dtype=mx.float64),
                "cells": mx.array((CELL @ deform)[None], dtype=mx.float64),
            }
        )
        expected = np.array(moved.edge_vectors())
    np.testing.assert_allclose(strained, expected, atol=1e-13)


def test_other_positions_replace_the_own():
    with mx.stream(mx.cpu):
        g = crystal()
        shifted = g.positions + mx.array([[1.0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]])
        change = np.array(g.edge_vectors(positions=shifted) - g.edge_vectors())
    expected = np.zeros((g.n_edges, 3))
    expected[np.array(g.edges.senders) == 0, 0] += 1
    expected[np.array(g.edges.receivers) == 0, 0] -= 1
    np.testing.assert_allclose(change, expected, atol=1e-14)


def test_derivatives_in_positions_and_strain_against_finite_differences():
    with mx.stream(mx.cpu):
        g = crystal()
        weights = mx.array(RNG.normal(size=(g.n_edges, 3)), dtype=mx.float64)

        def value(positions, strain):
            return mx.sum(weights * g.edge_vectors(positions, strain) ** 3)

        x, strain = g.positions, mx.array(0.01 * RNG.normal(size=(1, 3, 3)), dtype=mx.float64)
        gradients = mx.grad(value, argnums=(0, 1))(x, strain)
        dx, ds = (mx.array(RNG.normal(size=a.shape), dtype=mx.float64) for a in (x, strain))
        step = 1e-5

        def central(function):
            plus = function(x + step * dx, strain + step * ds)
            return (plus - function(x - step * dx, strain - step * ds)) / (2 * step)

        slope = mx.sum(gradients[0] * dx) + mx.sum(gradients[1] * ds)
        assert abs(slope.item() / central(value).item() - 1) < 1e-8
        # Forward over reverse: the second derivative exists and is right.
        _, (hvp,) = mx.jvp(lambda a, b: mx.grad(value)(a, b), (x, strain), (dx, ds))
        expected = central(lambda a, b: mx.grad(value)(a, b))
        np.testing.assert_allclose(np.array(hvp), np.array(expected), rtol=1e-6, atol=1e-5)


def test_volumes():
    assert crystal().volumes().item() == pytest.approx(abs(np.linalg.det(CELL)), rel=1e-12)
    for pbc in (False, [True, True, False]):
        assert graph.build(NUMBERS, POSITIONS, CELL, pbc, cutoff=3.0).volumes().item() == 0


def test_open_directions_have_zero_rows():
    g = graph.build(NUMBERS, POSITIONS, CELL, [True, False, True], cutoff=3.0, dtype=mx.float64)
    assert np.array_equal(np.array(g.cells[0]), CELL * [[1], [0], [1]])


def test_precision_changes_floats_only():
    g = crystal()
    single = g.astype(mx.float32)
    for name in ("positions", "cells", "shifts"):
        assert getattr(g, name).dtype == mx.float64
        assert getattr(single, name).dtype == mx.float32
    assert single.numbers.dtype == single.edges.senders.dtype == mx.int32
    assert np.array_equal(np.array(single.positions), POSITIONS.astype(np.float32))


def test_one_atom_and_no_edges():
    g = graph.build([18], [[1.0, 2, 3]], cutoff=5.0)
    assert (g.n_atoms, g.n_edges) == (1, 0)
    assert g.edge_vectors().shape == (0, 3)
    gradient = mx.grad(lambda x: mx.sum(g.edge_vectors(x) ** 2) + mx.sum(x))(g.positions)
    assert gradient.tolist() == [[1, 1, 1]]


def test_arrays_round_trip_inside_a_compiled_function():
    g = crystal(mx.float32)

    @mx.compile
    def total(arrays):
        return mx.sum(graph.Graph.from_arrays(arrays).edge_vectors() ** 2)

    expected = (vectors_by_hand(crystal()) ** 2).sum()
    assert total(g.arrays()).item() == pytest.approx(expected, rel=1e-5)


def test_input_arrays_are_not_changed():
    positions, cell = POSITIONS + 100, CELL.copy()
    graph.build(NUMBERS, positions, cell, [True, False, False], cutoff=3.0)
    graph.reduce_positions(positions, cell, [True, False, False])
    assert np.array_equal(positions, POSITIONS + 100)
    assert np.array_equal(cell, CELL)


@pytest.mark.parametrize("pbc", [True, False, [True, False, True]])
def test_reduced_positions_have_the_same_edges_near_the_origin(pbc):
    far = POSITIONS + 1000 + RNG.integers(-9, 9, (4, 3)) * np.array(pbc) @ CELL
    near = graph.reduce_positions(far, CELL, pbc)
    assert np.abs(near).max() < 10

    def vectors(x):
        g = graph.build(NUMBERS, x, CELL, pbc, cutoff=4.0, dtype=mx.float64)
        rows = np.column_stack([g.edges.receivers, g.edges.senders, vectors_by_hand(g).round(8)])
        return rows[np.lexsort(rows.T)]

    np.testing.assert_allclose(vectors(near), vectors(far), atol=1e-7)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], np.zeros((0, 3))), "no atoms"),
        (([1, 1], [[0.0, 0, 0]]), "expected"),
        (([0], [[0.0, 0, 0]]), "atomic number 0"),
        (([1, 119], [[0.0, 0, 0], [1, 0, 0]]), "atom 1 has atomic number 119"),
    ],
)
def test_wrong_structures_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        graph.build(*arguments, cutoff=3.0)
