"""Lists of pairs in float32 near the cutoff, by MLX and by kernels on an emulated GPU.

Rounding decides there whether a pair counts: then it may, or may not, but the list has to be one.
"""

from __future__ import annotations

import contextlib

import mlx.core as mx
import numpy as np
import pytest
from emulated_gpu import emulated_gpu

from mlpot import graph

pytestmark = pytest.mark.usefixtures("unmeasured_kernels")

CUTOFF, SKIN = 3.0, 0.5
RADIUS = CUTOFF + SKIN
STEPS = ["pair_bins", "segment_starts", "pair_search", "pair_edges", "pair_reverse"]


def near_the_cutoff(rng: np.random.Generator):
    """Atoms on a lattice whose nearest neighbours are as far apart as the list reaches."""
    side = int(rng.integers(1, 4))
    pbc = rng.integers(0, 2, 3).astype(bool)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    cell = side * RADIUS * (1 + rng.choice([0, 0, 1e-7, -1e-7, 1e-5, -1e-5])) * turn
    places = np.array(list(np.ndindex(side, side, side)))
    chosen = places[rng.permutation(len(places))[: int(rng.integers(1, 9))]]
    moved = rng.integers(-2, 3, chosen.shape) * pbc + rng.uniform(-1, 1, 3)
    xyz = (chosen / side + moved) @ cell * (1 + rng.choice([0, 1e-7, -1e-7]))
    if rng.uniform() < 0.3:
        xyz = xyz + 1e-6 * rng.normal(size=xyz.shape)
    return xyz, np.where(pbc[:, None], cell, 0.0), pbc


def anywhere(rng: np.random.Generator):
    """Skewed and thin cells, atoms far outside of them."""
    pbc = rng.integers(0, 2, 3).astype(bool)
    cell = np.diag(rng.uniform(2.0, 11.0, 3)) + np.tril(rng.uniform(-2, 2, (3, 3)), -1)
    full = np.where(pbc[:, None], cell, 6.0 * np.eye(3))
    xyz = rng.uniform(-1.5, 2.5, (int(rng.integers(1, 9)), 3)) @ full
    return xyz, np.where(pbc[:, None], cell, 0.0), pbc


def batch(make, n_graphs, seed):
    rng = np.random.default_rng(seed)
    members = [make(rng) for _ in range(n_graphs)]
    owner = np.repeat(np.arange(n_graphs), [len(one[0]) for one in members])
    xyz = np.concatenate([one[0] for one in members]).astype(np.float32)
    cells = np.array([one[1] for one in members]).astype(np.float32)
    return xyz, cells, np.array([one[2] for one in members]), owner


def listed(search, xyz, cells):
    for _ in range(6):
        pairs, needed = search.build(mx.array(xyz), mx.array(cells))
        if search.fits(np.array(needed)):
            return pairs.graph
    raise AssertionError("the list does not get large enough")


def edges_of(senders, receivers, shifts) -> set:
    rows = np.column_stack([receivers, senders, np.rint(shifts)]).astype(int)
    found = set(map(tuple, rows.tolist()))
    assert len(found) == len(rows)
    return found


def lengths_of(edges: set, xyz, cells, owner) -> np.ndarray:
    rows = np.array(sorted(edges), dtype=int).reshape(-1, 5)
    far = xyz.astype(np.float64)
    moved = np.einsum("ei,eij->ej", rows[:, 2:], cells.astype(np.float64)[owner[rows[:, 0]]])
    return np.linalg.norm(far[rows[:, 1]] + moved - far[rows[:, 0]], axis=1)


def check(made, xyz, cells, pbc, owner, symmetric):
    """Offsets belong to the edges, and only pairs at the very end of the list may differ."""
    edges = made.edges
    senders, receivers = np.array(edges.senders), np.array(edges.receivers)
    assert np.all(np.diff(receivers) >= 0)
    for index, pointers in ((receivers, edges.receiver_ptr), (senders, edges.sender_ptr)):
        counted = np.bincount(index, minlength=made.n_atoms)
        np.testing.assert_array_equal(np.diff(np.array(pointers)), counted)
    perm = np.array(edges.sender_perm)
    np.testing.assert_array_equal(np.sort(perm), np.arange(len(perm)))
    np.testing.assert_array_equal(senders[perm], np.sort(senders))
    real = receivers < len(xyz)
    assert np.all(np.linalg.norm(np.array(made.edge_vectors())[~real], axis=1) > 100)
    found = edges_of(senders[real], receivers[real], np.array(made.shifts)[real])
    if symmetric:
        assert found == {(j, i, -a, -b, -c) for i, j, a, b, c in found}
    wanted: set = set()
    for graph_number, cell in enumerate(cells):
        own = np.flatnonzero(owner == graph_number)
        s, r, shifts = graph.neighbor_list(
            xyz[own].astype(np.float64), cell.astype(np.float64), pbc[graph_number], RADIUS
        )
        wanted |= edges_of(s + own[0], r + own[0], shifts)
    away = np.abs(lengths_of(found ^ wanted, xyz, cells, owner) - RADIUS)
    assert away.max(initial=0.0) < 1e-4
    return len(found ^ wanted), len(wanted)


@pytest.mark.parametrize("seed", range(10))
def test_three_thousand_lattices_at_the_cutoff(seed):
    xyz, cells, pbc, owner = batch(near_the_cutoff, 300, seed)
    search = graph.DevicePairs(np.ones(len(xyz)), owner, pbc, CUTOFF, SKIN, mx.float32)
    differing, pairs = check(listed(search, xyz, cells), xyz, cells, pbc, owner, False)
    assert differing > 0 and pairs > 500  # rounding did decide


@pytest.mark.emulated
@pytest.mark.parametrize(("make", "seed"), [(near_the_cutoff, 0), (anywhere, 1), (anywhere, 2)])
def test_lists_of_kernels(make, seed):
    xyz, cells, pbc, owner = batch(make, 40, seed)
    search = graph.DevicePairs(np.ones(len(xyz)), owner, pbc, CUTOFF, SKIN, mx.float32)
    with emulated_gpu() as gpu:
        made = listed(search, xyz, cells)
    assert gpu.kernels[-5:] == STEPS and len(gpu.kernels) >= 10  # room was made
    differing, pairs = check(made, xyz, cells, pbc, owner, True)
    assert pairs > 100 and (differing > 0) == (make is near_the_cutoff)


@pytest.mark.emulated
def test_what_kernels_refuse():
    cells = 8.0 * np.eye(3, dtype=np.float32)[None]
    xyz = np.array([[0, 0, 0], [1.5, 0, 0], [7, 7, 7]], np.float32)

    def build(positions, rows=cells):
        search = graph.DevicePairs([1] * 3, [0] * 3, [[True] * 3], CUTOFF, SKIN, mx.float32)
        listed(search, xyz, cells)
        made, needed = search.build(mx.array(positions), mx.array(rows))
        return search, search.fits(np.array(needed)), made.graph

    with emulated_gpu():
        assert build(xyz)[1]
        with pytest.raises(ValueError, match="2 pairs of atoms are at the same place"):
            build(xyz[[0, 0, 2]] + np.float32([[0], [8], [0]]) * np.float32([1, 0, 0]))
        for bad in (np.nan, np.inf):
            with pytest.raises(ValueError, match="not finite"):
                build(np.float32([[0, 0, 0], [bad, 0, 0], [1, 1, 1]]))
            with pytest.raises(ValueError, match="not finite"):
                build(xyz, np.full_like(cells, bad))
        search, fits, _ = build(xyz, np.float32(0.4) * cells)
        assert not fits and search.grid is None  # bins too narrow: planned anew
        assert len(listed(search, xyz, np.float32(0.4) * cells).shifts) > 0


@pytest.mark.emulated
def test_a_pair_in_one_direction_only_is_seen():
    xyz, cells, pbc, owner = batch(anywhere, 5, 3)
    search = graph.DevicePairs(np.ones(len(xyz)), owner, pbc, CUTOFF, SKIN, mx.float32)
    with emulated_gpu() as gpu:
        listed(search, xyz, cells)
        _, needed = search.build(mx.array(xyz), mx.array(cells))
        lost = np.array(needed)
        lost[5] = 1
        assert not search.fits(lost)
        before = len(gpu.kernels)
        check(listed(search, xyz, cells), xyz, cells, pbc, owner, False)
        assert "pair_search" not in gpu.kernels[before:]


def test_kernels_are_for_gpus():
    search = graph.DevicePairs([1], [0], [[False] * 3], CUTOFF, SKIN, mx.float32)
    with contextlib.suppress(AssertionError):
        made = listed(search, np.zeros((1, 3), np.float32), np.zeros((1, 3, 3), np.float32))
    assert made.n_atoms == 2 and search._kernels is None
