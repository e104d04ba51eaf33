"""Neighbour lists against ASE's, against brute force and against counted cases."""

import itertools

import numpy as np
import pytest
from ase.geometry import complete_cell
from ase.neighborlist import primitive_neighbor_list
from hypothesis import given, settings
from hypothesis import strategies as st

from mlpot.graph import neighbor_list

SI = np.array([[0, 1, 1], [1, 0, 1], [1, 1, 0]]) * 5.43 / 2


def brute_force(positions, cell, pbc, cutoff):
    """Set of (receiver, sender, shift) closer than the cutoff, by trying every image."""
    axes = [k for k in range(3) if pbc[k]]
    delta = positions[None] - positions[:, None]
    images = np.zeros((1, 3), int)
    if axes:
        inverse = np.linalg.pinv(cell[axes])
        reach = cutoff * np.linalg.norm(inverse, axis=0)
        fractional = delta @ inverse
        ranges = [
            range(
                int(np.floor((-fractional[..., k]).min() - reach[k])),
                int(np.ceil((-fractional[..., k]).max() + reach[k])) + 1,
            )
            for k in range(len(axes))
        ]
        grid = np.array(list(itertools.product(*ranges)))
        images = np.zeros((len(grid), 3), int)
        images[:, axes] = grid
    vectors = delta[None] + (images @ np.where(np.array(pbc)[:, None], cell, 0.0))[:, None, None]
    distances = np.linalg.norm(vectors, axis=-1)
    image, i, j = np.nonzero(distances < cutoff)
    return {
        (int(a), int(b), *map(int, images[s]))
        for s, a, b in zip(image, i, j, strict=True)
        if a != b or images[s].any()
    }


def as_set(senders, receivers, shifts):
    """The same form from three arrays; fails on duplicates."""
    edges = [
        (int(r), int(s), *map(int, shift))
        for s, r, shift in zip(senders, receivers, shifts, strict=True)
    ]
    assert len(set(edges)) == len(edges), "a pair is listed twice"
    return set(edges)


@st.composite
def systems(draw):
    """Random atoms, cell (skewed, thin, or with bad open rows), periodicity and cutoff."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_atoms = draw(st.integers(1, 10))
    lengths = np.array([draw(st.floats(1.5, 6.0)) for _ in range(3)])
    skew = draw(st.floats(0.0, 2.0))
    cell = np.diag(lengths) @ (np.eye(3) + skew * np.tril(rng.uniform(-1, 1, (3, 3)), -1))
    cell = cell @ np.linalg.qr(rng.normal(size=(3, 3)))[0]
    # Not exactly a multiple of a length: whether such a pair counts is a matter of rounding.
    cutoff = draw(st.floats(0.5, 2.0)) * min(6.0, 3 * lengths.min()) / 2 * rng.uniform(0.99, 1.0)
    pbc = np.array([draw(st.booleans()) for _ in range(3)])
    spread = draw(st.sampled_from([1.0, 3.0]))
    positions = (spread * rng.random((n_atoms, 3)) - spread / 3) @ cell
    if draw(st.booleans()):
        cell[~pbc] = draw(st.sampled_from([0.0, 1.0])) * cell[0]
    return positions, cell, pbc, cutoff


@settings(max_examples=500, deadline=None, derandomize=True)
@given(systems())
def test_random_systems_equal_ase_and_brute_force(system):
    positions, cell, pbc, cutoff = system
    found = as_set(*neighbor_list(positions, cell, pbc, cutoff))
    assert found == brute_force(positions, cell, pbc, cutoff)
    # ASE's list loses pairs where an open row is zero or dependent: it gets a completed cell.
    ase_cell = complete_cell(np.where(pbc[:, None], cell, 0.0))
    i, j, shifts = primitive_neighbor_list("ijS", pbc, ase_cell, positions, cutoff)
    assert found == as_set(j, i, shifts)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(systems(), st.integers(0, 2**32 - 1))
def test_atoms_far_outside_the_cell_keep_their_vectors(system, seed):
    positions, cell, pbc, cutoff = system
    wraps = np.random.default_rng(seed).integers(-50, 50, positions.shape) * pbc
    near = neighbor_list(positions, cell, pbc, cutoff)
    moved = positions + wraps @ cell
    senders, receivers, shifts = neighbor_list(moved, cell, pbc, cutoff)
    expected = near[2] - wraps[near[0]] + wraps[near[1]]
    assert as_set(senders, receivers, shifts) == as_set(near[0], near[1], expected)


def test_primitive_silicon_has_92_edges():
    senders, receivers, shifts = neighbor_list([[0, 0, 0], [5.43 / 4] * 3], SI, True, 6.0)
    assert len(senders) == 92
    assert np.bincount(receivers).tolist() == [46, 46]
    # Shells of diamond within 6 Angstrom: 4, 12, 12, 6, 12 (the last at 0.5 sqrt(19/4) a = 5.92).
    positions = np.array([[0, 0, 0], [5.43 / 4] * 3])
    vectors = positions[senders] + shifts @ SI - positions[receivers]
    shells = np.unique(np.linalg.norm(vectors, axis=1).round(6), return_counts=True)[1] // 2
    assert shells.tolist() == [4, 12, 12, 6, 12]


def test_one_atom_sees_its_own_images():
    senders, receivers, shifts = neighbor_list([[7.0, -3.0, 1.0]], np.eye(3), True, 1.01)
    assert as_set(senders, receivers, shifts) == {
        (0, 0, *(sign * np.eye(3, dtype=int)[k])) for k in range(3) for sign in (1, -1)
    }


@pytest.mark.parametrize(
    ("cell", "pbc"),
    [
        (None, False),
        (np.zeros((3, 3)), [False] * 3),
        (np.eye(3), False),
        (np.ones((3, 3)), False),
        (np.full((3, 3), np.nan), False),
    ],
    ids=["none", "zero", "dummy", "singular", "nan"],
)
def test_open_directions_ignore_the_cell(cell, pbc):
    positions = [[0.0, 0, 0], [1.5, 0, 0], [0, 4.5, 0]]
    senders, receivers, shifts = neighbor_list(positions, cell, pbc, 2.0)
    assert (senders.tolist(), receivers.tolist()) == ([1, 0], [0, 1])
    assert shifts.tolist() == [[0, 0, 0], [0, 0, 0]]


def test_slab_with_zero_vector_along_the_open_direction():
    cell = [[3.0, 0, 0], [0, 3.0, 0], [0, 0, 0]]
    _, receivers, shifts = neighbor_list([[0, 0, 0], [0, 0, 2.0]], cell, [True, True, False], 3.01)
    # Four images in the plane each, and the other atom straight above or below.
    assert np.bincount(receivers).tolist() == [5, 5]
    assert not shifts[:, 2].any()


def test_no_edges_and_no_atoms_have_the_right_shapes():
    for positions in (np.zeros((1, 3)), [[0, 0, 0], [9, 0, 0]], np.zeros((0, 3))):
        senders, receivers, shifts = neighbor_list(positions, None, False, 5.0)
        assert (senders.shape, receivers.shape, shifts.shape) == ((0,), (0,), (0, 3))


def test_ten_thousand_atoms_against_ase():
    rng = np.random.default_rng(3)
    cell = np.array([[50.0, 0, 0], [10.0, 48.0, 0], [-5.0, 8.0, 45.0]])
    positions = rng.random((10_000, 3)) @ cell
    pbc = [True, False, True]
    senders, receivers, shifts = neighbor_list(positions, cell, pbc, 4.0)
    i, j, s = primitive_neighbor_list("ijS", pbc, cell, positions, 4.0)
    order = np.lexsort((s[:, 2], s[:, 1], s[:, 0], j, i))
    np.testing.assert_array_equal(receivers, i[order])
    np.testing.assert_array_equal(senders, j[order])
    np.testing.assert_array_equal(shifts, s[order])


def test_order_is_receiver_then_sender_then_shift():
    rng = np.random.default_rng(5)
    positions = rng.random((6, 3)) * 3
    edges = neighbor_list(positions, 2.5 * np.eye(3), True, 4.0)
    rows = np.column_stack([edges[1], edges[0], edges[2]]).tolist()
    assert rows == sorted(rows)
    assert all(
        np.array_equal(a, b)
        for a, b in zip(edges, neighbor_list(positions, 2.5 * np.eye(3), True, 4.0), strict=True)
    )


def test_atoms_flying_apart_keep_their_pairs():
    # Without care such extents end the process inside the neighbour list's cell grid.
    positions = np.array([[0.0, 0, 0], [1.0, 0, 0], [1e7, 0, 0], [1e7 + 1, 0, 0], [-4e8, 1, 0]])
    assert as_set(*neighbor_list(positions, None, False, 3.0)) == {
        (a, b, 0, 0, 0) for a, b in [(0, 1), (1, 0), (2, 3), (3, 2)]
    }
    slab = neighbor_list(positions[:, ::-1], [[4.0, 0, 0], [0, 4.0, 0], [0, 0, 0]], [1, 1, 0], 3.0)
    assert as_set(*slab) == {(a, b, 0, 0, 0) for a, b in [(0, 1), (1, 0), (2, 3), (3, 2)]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"positions": [[0, 0, 0], [0, np.nan, 0]]}, "atom 1 is not finite"),
        ({"positions": [0.0, 0, 0]}, r"expected \(n_atoms, 3\)"),
        ({"positions": [[1, 1, 1], [1, 1, 1]]}, "same place"),
        ({"positions": [[1, 1, 1], [1, 1, 6]]}, "same place"),
        ({"cutoff": 0.0}, "cutoff must be a positive"),
        ({"cutoff": np.inf}, "cutoff must be a positive"),
        ({"cell": None}, "periodic along a but"),
        ({"cell": np.diag([5.0, 5.0, 0.0])}, "periodic along c but"),
        ({"cell": [[5, 0, 0], [5, 0, 0], [0, 0, 5]]}, "linearly dependent"),
        ({"cell": np.eye(2)}, "shape"),
        ({"cell": np.eye(3) * np.nan}, "not finite"),
        ({"cell": [1e7, 5, 5]}, "wide along a"),
        ({"pbc": [True, False]}, "pbc must be"),
    ],
)
def test_wrong_input_is_named(change, message):
    arguments = {
        "positions": [[0.0, 0, 0], [1.0, 0, 0]],
        "cell": 5 * np.eye(3),
        "pbc": True,
        "cutoff": 3.0,
    }
    with pytest.raises(ValueError, match=message):
        neighbor_list(**(arguments | change))
