"""Graphs and labels of a batch: values, masks, weights, padding, precision."""

import mlx.core as mx
import numpy as np
import pytest
from ase.build import bulk

from mlpot import graph
from mlpot.datasets import Frame, Labels, collate

E0 = {1: -13.6, 8: -2041.25, 29: 3.5}
RNG = np.random.default_rng(8)


def frames():
    atoms = bulk("Cu", a=3.6, cubic=True)
    return [
        Frame(
            numbers=[8, 1, 1],
            positions=[[0.0, 0, 0], [0.96, 0, 0], [-0.24, 0.93, 0]],
            energy=-2041.25 - 2 * 13.6 - 9.5,
            forces=RNG.normal(size=(3, 3)),
            weight=2.0,
            energy_weight=3.0,
            forces_weight=0.5,
        ),
        Frame(
            numbers=atoms.numbers,
            positions=atoms.positions + 50 * atoms.cell.array[0],
            cell=atoms.cell.array,
            pbc=True,
            energy=1.0,
            stress=RNG.normal(size=6),
            stress_weight=7.0,
        ),
        Frame(numbers=[1, 1], positions=[[0, 0, 0], [0.7, 0, 0]], forces=RNG.normal(size=(2, 3))),
        # A stress without three periodic directions means nothing.
        Frame(numbers=[29], positions=[[0, 0, 0]], energy=3.5, stress=np.eye(3)),
    ]


def test_labels_hold_what_is_known():
    data = frames()
    _, labels = collate(data, 3.0, E0s=E0, pad=False)
    np.testing.assert_allclose(labels.energy, [-9.5, 1.0 - 14.0, 0, 0], atol=1e-4)
    assert labels.energy_mask.tolist() == [True, True, False, True]
    assert labels.stress_mask.tolist() == [False, True, False, False]
    assert labels.forces_mask.tolist() == [True] * 3 + [False] * 4 + [True] * 2 + [False]
    np.testing.assert_allclose(labels.forces[:3], data[0].forces, rtol=1e-6)
    assert not np.array(labels.forces[3:7]).any()
    np.testing.assert_allclose(labels.forces[7:9], data[2].forces, rtol=1e-6)
    np.testing.assert_allclose(labels.stress[1], data[1].stress, rtol=1e-6)
    assert not np.array(labels.stress)[[0, 2, 3]].any()
    assert labels.n_atoms.tolist() == [3, 4, 2, 1]
    assert labels.energy_weight.tolist() == [6, 1, 1, 1]
    assert labels.forces_weight.tolist() == [1] * 3 + [1] * 7
    assert labels.stress_weight.tolist() == [2, 7, 1, 1]


def test_the_graph_is_that_of_the_frames():
    data = frames()
    joined, _ = collate(data, 3.0, mx.float64, pad=False)
    alone = [
        graph.build(f.numbers, f.positions, f.cell, f.pbc, cutoff=3.0, dtype=mx.float64)
        for f in data
    ]
    assert joined.numbers.tolist() == [int(z) for f in data for z in f.numbers]
    assert joined.n_edges == sum(g.n_edges for g in alone)
    with mx.stream(mx.cpu):
        found = np.array(joined.edge_vectors())
        expected = np.concatenate([np.array(g.edge_vectors()) for g in alone])
    np.testing.assert_allclose(found, expected, atol=1e-12)
    # Positions far from the origin come close, so that float32 keeps their digits.
    assert np.abs(np.array(joined.positions)).max() < 10


def test_padding_changes_nothing_but_sizes():
    data = frames()
    plain_graph, plain = collate(data, 3.0, E0s=E0, pad=False)
    padded_graph, padded = collate(data, 3.0, E0s=E0, n_atoms=20, n_edges=300, n_graphs=7)
    assert (padded_graph.n_atoms, padded_graph.n_edges, padded_graph.n_graphs) == (20, 300, 7)
    for name, array in plain.arrays().items():
        longer = np.array(padded.arrays()[name])
        assert np.array_equal(longer[: len(array)], array), name
        rest = longer[len(array) :]
        assert np.all(rest == (1 if name == "n_atoms" else 0)), name
    vectors = np.array(padded_graph.edge_vectors())
    assert np.array_equal(vectors[: plain_graph.n_edges], plain_graph.edge_vectors())
    default_graph, _ = collate(data, 3.0)
    assert default_graph.n_atoms == graph.bucket_size(11)


def test_energies_lose_no_digits_to_large_E0s():
    numbers = [8] * 50
    positions = 3.0 * np.arange(150).reshape(-1, 3)
    big = {8: -20410.123456789}
    frame = Frame(numbers=numbers, positions=positions, energy=50 * big[8] + 0.001)
    _, labels = collate([frame], 2.0, E0s=big)
    assert labels.energy[0].item() == pytest.approx(0.001, abs=1e-8)


def test_without_E0s_energies_are_whole():
    _, labels = collate(frames(), 3.0)
    assert labels.energy[1].item() == 1.0


def test_precision():
    g, labels = collate(frames(), 3.0, mx.float64, E0s=E0)
    assert g.positions.dtype == labels.energy.dtype == labels.forces_weight.dtype == mx.float64
    assert labels.energy_mask.dtype == mx.bool_
    assert collate(frames(), 3.0)[1].energy.dtype == mx.float32


def test_labels_round_trip_through_their_arrays():
    _, labels = collate(frames(), 3.0)
    again = Labels(**labels.arrays())
    assert again == labels


def test_errors_name_the_frame():
    bad = frames()[0].replace(source="run.xyz:3")
    with pytest.raises(ValueError, match=r"run\.xyz:3 holds O without E0; there are E0s for H"):
        collate([bad], 3.0, E0s={1: 0.0})
    twice = Frame(numbers=[1, 1], positions=np.zeros((2, 3)), source="run.xyz:4")
    with pytest.raises(ValueError, match=r"run\.xyz:4: atoms 0 and 1 are at the same place"):
        collate([twice], 3.0)
    with pytest.raises(ValueError, match="at least one"):
        collate([], 3.0)
    with pytest.raises(ValueError, match="n_atoms=5"):
        collate(frames(), 3.0, n_atoms=5)
