"""Neighbour lists, on host and device, of 500 random cells against ASE's."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
from ase.neighborlist import primitive_neighbor_list
from hypothesis import given, settings
from hypothesis import strategies as st

from mlpot import graph

CUTOFF = 4.0


@st.composite
def structures(draw):
    """Skewed, thin (heights down to a third of the cutoff) and partly open cells."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    pbc = np.array(draw(st.tuples(st.booleans(), st.booleans(), st.booleans())))
    skew = draw(st.floats(0.0, 0.9))
    triangle = np.tril(rng.uniform(-skew, skew, (3, 3)), -1) + np.eye(3)
    # Not exactly a part of the cutoff: whether such a pair counts is a matter of rounding.
    heights = np.array([draw(st.floats(CUTOFF / 3, 12.0)) for _ in range(3)])
    heights *= rng.uniform(1.0, 1.01, 3)
    cell = triangle * (heights * np.linalg.norm(np.linalg.inv(triangle), axis=0))[:, None]
    cell = cell @ np.linalg.qr(rng.normal(size=(3, 3)))[0]
    if draw(st.booleans()):
        cell[~pbc] = 0.0
    n_atoms = draw(st.integers(1, 8))
    spread = draw(st.sampled_from([1.0, 3.0, 40.0]))
    full = np.where(pbc[:, None], cell, 6.0 * np.eye(3))
    positions = rng.uniform(-spread, spread, (n_atoms, 3)) @ full / 2
    return positions, cell, pbc


def lines(senders, receivers, shifts) -> list[tuple[int, ...]]:
    rows = np.column_stack([receivers, senders, np.round(shifts)]).astype(int)
    return sorted(map(tuple, rows.tolist()))


def device_lines(search: graph.DevicePairs, positions, cells) -> list[tuple[int, ...]]:
    """Pairs of the device, by as many attempts as its sizes need."""
    xyz = mx.array(positions, dtype=mx.float64)
    rows = mx.array(cells, dtype=mx.float64)
    for _ in range(4):
        pairs, needed = search.build(xyz, rows)
        if search.fits(np.array(needed)):
            break
    else:
        raise AssertionError("the list does not get large enough")
    check_edges(pairs.graph)
    edges = pairs.graph.edges
    receivers = np.array(edges.receivers)
    real = receivers < len(positions)
    assert np.count_nonzero(real) == int(needed[0])
    # Padding is beyond every cutoff.
    lengths = np.linalg.norm(np.array(pairs.graph.edge_vectors()), axis=1)
    assert np.all(lengths[~real] > 100)
    return lines(np.array(edges.senders)[real], receivers[real], np.array(pairs.graph.shifts)[real])


def check_edges(found: graph.Graph) -> None:
    """Offsets and order are those that the host would make of the same edges."""
    from mlpot.kernels import EdgeIndex

    edges = found.edges
    wanted = EdgeIndex.from_pairs(np.array(edges.senders), np.array(edges.receivers), found.n_atoms)
    for name, array in wanted.arrays().items():
        np.testing.assert_array_equal(np.array(edges.arrays()[name]), np.array(array), name)


def ase_lines(positions, cell, pbc) -> list[tuple[int, ...]]:
    # ASE needs three vectors, also where nothing is periodic.
    full = np.array(cell)
    free = ~np.array(pbc) & (np.linalg.norm(full, axis=1) == 0)
    if free.any():
        basis = np.linalg.svd(full[~free], full_matrices=True)[2]
        full[free] = basis[np.count_nonzero(~free) :] if not free.all() else np.eye(3)
    first, second, shifts = primitive_neighbor_list("ijS", pbc, full, positions, CUTOFF)
    return lines(second, first, shifts)


@settings(max_examples=500)
@given(structures())
def test_same_pairs_as_ase(structure):
    positions, cell, pbc = structure
    senders, receivers, shifts = graph.neighbor_list(positions, cell, pbc, CUTOFF)
    found = lines(senders, receivers, shifts)
    assert found == ase_lines(positions, cell, pbc)
    search = graph.DevicePairs(
        np.ones(len(positions)),
        np.zeros(len(positions), int),
        pbc[None],
        CUTOFF,
        0.0,
        mx.float64,
        block=20_000,
    )
    with mx.stream(mx.cpu):
        assert device_lines(search, positions, np.where(pbc[:, None], cell, 0.0)[None]) == found


@settings(max_examples=60)
@given(st.lists(structures(), min_size=2, max_size=4))
def test_batches_and_half_lists(members):
    counts = [len(positions) for positions, _, _ in members]
    node_graph = np.repeat(np.arange(len(members)), counts)
    positions = np.concatenate([one[0] for one in members])
    pbc = np.array([one[2] for one in members])
    cells = np.array([np.where(p[:, None], cell, 0.0) for _, cell, p in members])
    expected, first = [], 0
    for xyz, cell, periodic in members:
        senders, receivers, shifts = graph.neighbor_list(xyz, cell, periodic, CUTOFF)
        expected += lines(senders + first, receivers + first, shifts)
        first += len(xyz)
    numbers = np.ones(len(positions))
    with mx.stream(mx.cpu):
        search = graph.DevicePairs(numbers, node_graph, pbc, CUTOFF, 0.0, mx.float64)
        assert device_lines(search, positions, cells) == sorted(expected)
        half = graph.DevicePairs(numbers, node_graph, pbc, CUTOFF, 0.0, mx.float64, half=True)
        found = device_lines(half, positions, cells)
    back = [(s, r, *(-x for x in shift)) for r, s, *shift in found]
    assert sorted(found + back) == sorted(expected)
