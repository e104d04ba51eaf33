"""Lists with a skin on host and device: when they hold, and that room is made for what is found."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlpot import graph, kernels


@pytest.fixture(autouse=True)
def on_the_cpu():
    with mx.stream(mx.cpu):
        yield


def real(array) -> mx.array:
    return mx.array(np.asarray(array, np.float64), dtype=mx.float64)


def listed(search, positions, cells) -> graph.Pairs:
    """A list that had room for everything."""
    for _ in range(6):
        pairs, needed = search.build(real(positions), real(cells))
        if search.fits(None if needed is None else np.array(needed)):
            return pairs
    raise AssertionError("no room was made")


def near_pairs(found: graph.Graph, cutoff: float, n_atoms: int) -> set:
    vectors = np.array(found.edge_vectors())
    receivers = np.array(found.edges.receivers)
    near = (receivers < n_atoms) & (np.linalg.norm(vectors, axis=1) < cutoff)
    columns = [receivers, np.array(found.edges.senders), *np.array(found.shifts).T]
    return set(map(tuple, np.array(columns).astype(int).T[near].tolist()))


@given(st.integers(0, 2**32 - 1), st.floats(0.0, 0.4), st.floats(0.0, 0.06))
def test_a_list_that_claims_to_hold_has_all_pairs(seed, step, strain):
    rng = np.random.default_rng(seed)
    pbc = rng.integers(0, 2, (2, 3)).astype(bool)
    cells = np.array([np.diag(rng.uniform(3, 7, 3)) + rng.uniform(-1, 1, (3, 3)) for _ in "ab"])
    cells = np.where(pbc[:, :, None], cells, 0.0)
    full = np.where(pbc[:, :, None], cells, 5.0 * np.eye(3))
    node_graph = np.repeat([0, 1], [5, 7])
    fractions = rng.uniform(-0.5, 1.5, (12, 3))
    positions = np.einsum("ni,nij->nj", fractions, full[node_graph])
    search = graph.HostPairs(np.ones(12), node_graph, pbc, 3.0, 0.6, mx.float64)
    pairs = listed(search, positions, cells)
    grown = np.eye(3) + strain * rng.uniform(-1, 1, (2, 3, 3))
    moved_cells = cells @ grown
    moved = np.einsum("ni,nij->nj", positions, grown[node_graph])
    moved = moved + step * rng.uniform(-1, 1, (12, 3)) / np.sqrt(3)
    excess = float(
        pairs.excess(real(moved), real(moved_cells), real(pbc), search.cutoff, search.skin)
    )
    found = near_pairs(pairs.moved(real(moved), real(moved_cells)), 3.0, 12)
    expected = near_pairs(listed(search, moved, moved_cells).graph, 3.0, 12)
    if excess <= 0:
        assert found == expected
    largest = (
        2
        * np.linalg.norm(
            moved - np.einsum("ni,nij->nj", positions, grown[node_graph]), axis=1
        ).max()
    )
    if strain == 0:
        assert excess == pytest.approx(largest - 0.6, abs=1e-9)


def test_not_finite_is_never_good():
    search = graph.HostPairs([1, 1], [0, 0], [[False] * 3], 3.0, 0.5, mx.float64)
    pairs = listed(search, [[0, 0, 0], [1.0, 0, 0]], np.zeros((1, 3, 3)))
    for bad in (np.nan, np.inf):
        moved = real([[0, 0, 0], [bad, 0, 0]])
        excess = float(pairs.excess(moved, real(np.zeros((1, 3, 3))), real([[0] * 3]), 3.0, 0.5))
        assert not excess <= 0
    device = graph.DevicePairs([1, 1], [0, 0], [[True] * 3], 3.0, 0.5, mx.float64)
    listed(device, [[0, 0, 0], [1.0, 0, 0]], 5 * np.eye(3)[None])
    for bad in (np.nan, np.inf):
        _, needed = device.build(real([[0, 0, 0], [bad, 0, 0]]), real(5 * np.eye(3)[None]))
        with pytest.raises(ValueError, match="not finite"):
            device.fits(np.array(needed))
    fresh = graph.DevicePairs([1, 1], [0, 0], [[True] * 3], 3.0, 0.5, mx.float64)
    with pytest.raises(ValueError, match="not finite"):
        fresh.build(real([[0, 0, 0], [np.nan, 0, 0]]), real(5 * np.eye(3)[None]))


def test_room_grows_with_density_and_bins_with_the_cell():
    rng = np.random.default_rng(1)
    fractions = rng.uniform(size=(120, 3))
    search = graph.DevicePairs(np.ones(120), np.zeros(120, int), [[True] * 3], 3.0, 0.3, mx.float64)
    host = graph.HostPairs(np.ones(120), np.zeros(120, int), [[True] * 3], 3.0, 0.3, mx.float64)
    sizes, bins = [], []
    for side in (22.0, 20.0, 14.0, 8.0, 30.0):  # both narrower bins and fuller ones
        cells = side * np.eye(3)[None]
        found = listed(search, fractions * side, cells)
        expected = listed(host, fractions * side, cells)
        assert near_pairs(found.graph, 3.3, 120) == near_pairs(expected.graph, 3.3, 120)
        sizes.append(search.capacity)
        bins.append(search.grid.n_bins)
    assert sizes[3] > 3 * sizes[0] and sizes[4] == sizes[3]
    assert bins[0] > bins[2] > bins[3]
    # All atoms into one bin.
    heap = 15.0 + rng.uniform(size=(120, 3))
    found = listed(search, heap, 30 * np.eye(3)[None])
    assert near_pairs(found.graph, 3.3, 120) == near_pairs(
        listed(host, heap, 30 * np.eye(3)[None]).graph, 3.3, 120
    )
    assert search.bin_capacity >= 30


def test_atoms_at_one_place_and_far_apart():
    search = graph.DevicePairs([1, 1], [0, 0], [[True] * 3], 3.0, 0.0, mx.float64)
    with pytest.raises(ValueError, match="at the same place"):
        listed(search, [[1.0, 1, 1], [6.0, 1, 1]], 5 * np.eye(3)[None])
    lonely = graph.DevicePairs([1], [0], [[False] * 3], 3.0, 0.0, mx.float64)
    assert near_pairs(listed(lonely, [[0.0, 0, 0]], np.zeros((1, 3, 3))).graph, 3.0, 1) == set()
    # Open directions: atoms leave the range that the bins were made for.
    rng = np.random.default_rng(2)
    search = graph.DevicePairs(np.ones(60), np.zeros(60, int), [[False] * 3], 3.0, 0.2, mx.float64)
    positions = rng.uniform(0, 15, (60, 3))
    listed(search, positions, np.zeros((1, 3, 3)))
    for factor in (1.0, 1.5, 0.3):
        moved = (positions - 3.0) * factor
        senders, receivers, shifts = graph.neighbor_list(moved, None, False, 3.2)
        expected = set(map(tuple, np.column_stack([receivers, senders, shifts]).tolist()))
        found = listed(search, moved, np.zeros((1, 3, 3))).graph
        assert near_pairs(found, 3.2, 60) == expected


def test_large_systems_in_float32():
    rng = np.random.default_rng(3)
    cell = np.array([[24.0, 1.0, 0.0], [0.0, 26.0, -2.0], [3.0, 0.0, 25.0]])
    positions = rng.uniform(-1, 2, (1500, 3)) @ cell
    cells = mx.array(cell[None], dtype=mx.float32)
    xyz = mx.array(positions, dtype=mx.float32)
    search = graph.DevicePairs(
        np.ones(1500), np.zeros(1500, int), [[True] * 3], 4.0, 0.0, mx.float32, block=100_000
    )
    for _ in range(6):
        pairs, needed = search.build(xyz, cells)
        if search.fits(np.array(needed)):
            break
    senders, receivers, shifts = graph.neighbor_list(np.array(xyz), cell, True, 4.0)
    expected = set(map(tuple, np.column_stack([receivers, senders, shifts]).tolist()))
    edges = pairs.graph.edges
    count = int(needed[0])
    columns = [np.array(edges.receivers), np.array(edges.senders), *np.array(pairs.graph.shifts).T]
    found = set(map(tuple, np.array(columns).astype(int).T[:count].tolist()))
    assert len(found) == count
    # Rounding decides about pairs at the very cutoff.
    for r, s, *shift in found ^ expected:
        length = np.linalg.norm(positions[s] + np.array(shift) @ cell - positions[r])
        assert abs(length - 4.0) < 1e-4
    assert len(found ^ expected) < 5 and count > 30_000


@pytest.mark.parametrize("half", [False, True])
def test_pairs_that_rounding_finds_in_one_direction_only(half):
    # Across a cell this wide a distance is rounded by 3e-5 in one direction only.
    rng = np.random.default_rng(4)
    n, radius, wide = 60, 4.0, 1000.0
    left = rng.uniform(0.5, 1.5, n)
    right = wide + left - radius + rng.uniform(-4e-5, 4e-5, n)
    rows = 20.0 * np.arange(n)
    positions = np.zeros((2 * n, 3))
    positions[:, 0], positions[:, 1] = np.concatenate([left, right]), np.tile(rows, 2)
    search = graph.DevicePairs(
        np.ones(2 * n),
        np.zeros(2 * n, int),
        [[True, False, False]],
        radius,
        0.0,
        mx.float32,
        half=half,
    )
    xyz = mx.array(positions, dtype=mx.float32)
    cells = mx.array(np.diag([wide, 0.0, 0.0])[None], dtype=mx.float32)
    for _ in range(6):
        pairs, needed = search.build(xyz, cells)
        if search.fits(np.array(needed)):
            break
    edges = pairs.graph.edges
    senders, receivers = np.array(edges.senders), np.array(edges.receivers)
    count = int(needed[0])
    both = set(zip(senders[:count].tolist(), receivers[:count].tolist(), strict=True))
    if not half:
        assert any((r, s) not in both for s, r in both)
    expected = kernels.EdgeIndex.from_pairs(senders, receivers, pairs.graph.n_atoms)
    for name in ("receiver_ptr", "sender_ptr"):
        np.testing.assert_array_equal(
            np.array(getattr(edges, name)), np.array(getattr(expected, name))
        )
    assert np.all(np.diff(senders[np.array(edges.sender_perm)]) >= 0)


def test_sizes_of_lists_are_few_and_hold_what_they_should():
    from mlpot.graph.verlet_list import capacity

    for octave in range(3, 26):
        numbers = np.unique(np.linspace(1 << octave, (2 << octave) - 1, 999).astype(int))
        sizes = np.array([capacity(int(n)) for n in numbers])
        assert np.all(sizes >= numbers) and np.all(np.diff(sizes) >= 0)
        few, room = (17, 1 / 16) if octave < 17 else (65, 1 / 64)
        assert len(set(sizes)) <= few
        assert np.max((sizes - numbers) / numbers) <= room
