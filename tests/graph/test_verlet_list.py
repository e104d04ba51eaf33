from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from mlpot import graph


def edge_set(result: graph.Graph, cutoff: float, n_atoms: int) -> list[tuple]:
    """Pairs and lengths of the real edges within the cutoff, in order."""
    with mx.stream(mx.cpu):
        vectors = np.array(result.edge_vectors())
    senders, receivers = np.array(result.edges.senders), np.array(result.edges.receivers)
    lengths = np.linalg.norm(vectors, axis=1)
    near = (receivers < n_atoms) & (lengths < cutoff)
    rows = zip(receivers[near], senders[near], *np.round(vectors[near], 7).T + 0.0, strict=True)
    return sorted(tuple(float(x) for x in row) for row in rows)


def random_structure(rng: np.random.Generator, pbc) -> tuple[np.ndarray, ...]:
    cell = np.diag(rng.uniform(4, 7, 3)) + rng.uniform(-1.5, 1.5, (3, 3))
    numbers = rng.integers(1, 30, 9)
    return numbers, rng.uniform(-3, 12, (9, 3)), cell, np.array(pbc)


PERIODICITIES = [(True, True, True), (True, True, False), (False, True, False), (False,) * 3]


@pytest.mark.parametrize("pbc", PERIODICITIES)
@pytest.mark.parametrize("trimmed", [True, False])
def test_same_edges_as_a_new_list_while_everything_moves(pbc, trimmed):
    rng = np.random.default_rng(sum(pbc))
    numbers, xyz, cell, pbc = random_structure(rng, pbc)
    pairs = graph.VerletList(4.0, skin=0.8)
    for _ in range(60):
        xyz = xyz + rng.normal(scale=0.04, size=xyz.shape) + rng.normal(scale=0.3, size=3)
        cell = cell @ (np.eye(3) + rng.normal(scale=0.004, size=(3, 3)))
        jumps = rng.integers(-2, 3, xyz.shape) * pbc
        with mx.stream(mx.cpu):
            found = pairs.graph(
                numbers, xyz + jumps @ cell, cell, pbc, dtype=mx.float64, trimmed=trimmed
            )
            fresh = graph.build(numbers, xyz, cell, pbc, cutoff=4.0, dtype=mx.float64)
        assert edge_set(found, 4.0, 9) == edge_set(fresh, 4.0, 9)
    assert 1 < pairs.n_builds < 50


def test_list_is_kept_until_twice_the_displacement_reaches_the_skin():
    xyz = np.array([[0.0, 0, 0], [3.0, 0, 0], [0, 3.0, 0], [0, 0, 3.0]])
    pairs = graph.VerletList(4.0, skin=0.5)
    pairs.graph([1] * 4, xyz)
    # One atom of four moves by d: less the common translation, its displacement is 3 d / 4.
    for distance, builds in ((0.30, 1), (0.33, 1), (0.34, 2)):
        pairs.graph([1] * 4, xyz + np.array([[distance, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]]))
        assert pairs.n_builds == builds


def test_no_build_for_translation_and_wrapping():
    rng = np.random.default_rng(3)
    cell = np.diag([8.0, 9.0, 10.0])
    xyz = rng.uniform(0, 8, (12, 3))
    pairs = graph.VerletList(4.0, skin=0.1)
    pairs.graph([6] * 12, xyz, cell, True)
    pairs.graph([6] * 12, xyz + rng.integers(-3, 4, (12, 3)) @ cell, cell, True)
    pairs.graph([6] * 12, xyz + 0.4 * cell[0], cell, True)
    assert pairs.n_builds == 1
    molecule = graph.VerletList(4.0, skin=0.1)
    molecule.graph([6] * 12, xyz)
    molecule.graph([6] * 12, xyz + 1e6)
    assert molecule.n_builds == 1


def test_strained_cell_keeps_the_list_within_the_skin():
    rng = np.random.default_rng(4)
    cell = np.diag([8.0, 9.0, 10.0])
    xyz = rng.uniform(0, 8, (12, 3))
    pairs = graph.VerletList(4.0, skin=0.5)
    for strain, builds in ((0.0, 1), (-0.05, 1), (0.2, 1), (-0.12, 2)):
        pairs.graph([6] * 12, xyz * (1 + strain), cell * (1 + strain), True)
        assert pairs.n_builds == builds


@pytest.mark.parametrize("change", ["numbers", "pbc", "count"])
def test_another_structure_builds_anew(change):
    rng = np.random.default_rng(5)
    numbers, xyz, cell, pbc = random_structure(rng, (True, True, True))
    pairs = graph.VerletList(4.0, skin=0.5)
    pairs.graph(numbers, xyz, cell, pbc)
    if change == "numbers":
        numbers = numbers[::-1]
    elif change == "pbc":
        pbc = [True, True, False]
    else:
        numbers, xyz = numbers[:-1], xyz[:-1]
    found = pairs.graph(numbers, xyz, cell, pbc)
    assert pairs.n_builds == 2
    assert np.array(found.numbers)[: len(numbers)].tolist() == list(numbers)


def test_an_error_leaves_no_stale_list():
    pairs = graph.VerletList(4.0)
    pairs.graph([1, 1], [[0, 0, 0], [1, 0, 0]])
    with pytest.raises(ValueError, match="not finite"):
        pairs.graph([1, 1], [[0, 0, 0], [np.nan, 0, 0]])
    with pytest.raises(ValueError, match="same place"):
        pairs.graph([1, 1], [[0, 0, 0], [0, 0, 0]])
    assert edge_set(pairs.graph([1, 1], [[0, 0, 0], [2, 0, 0]]), 4.0, 2) == [
        (0.0, 1.0, 2.0, 0.0, 0.0),
        (1.0, 0.0, -2.0, 0.0, 0.0),
    ]


def test_few_sizes_in_a_long_run():
    rng = np.random.default_rng(6)
    cell = 9.0 * np.eye(3)
    xyz = rng.uniform(0, 9, (40, 3))
    pairs = graph.VerletList(4.0, skin=0.4)
    sizes = set()
    for _ in range(300):
        xyz = xyz + rng.normal(scale=0.03, size=xyz.shape)
        found = pairs.graph([6] * 40, xyz, cell, True)
        sizes.add((found.n_atoms, found.n_edges))
        assert np.array(found.numbers > 0).sum() == 40
    assert len(sizes) <= 4


def test_float32_positions_are_near_the_origin():
    xyz = np.array([[1e5, 1e5, 1e5], [1e5 + 1.234567, 1e5, 1e5]])
    found = graph.VerletList(4.0).graph([1, 1], xyz, padded=False)
    assert np.abs(np.array(found.edge_vectors())[:, 0]) == pytest.approx(1.234567, abs=2e-7)


@pytest.mark.parametrize(("cutoff", "skin"), [(0.0, 0.5), (-1.0, 0.5), (4.0, -0.1), (4.0, np.nan)])
def test_wrong_lengths(cutoff, skin):
    with pytest.raises(ValueError, match="Angstrom"):
        graph.VerletList(cutoff, skin)
