"""Structures of the benchmark have the edges that they promise."""

from __future__ import annotations

import numpy as np
import pytest
from benchmark.cases import CASES
from benchmark.inputs import dim, draw
from benchmark.random_numbers import normal, weights
from benchmark.structures import cluster, large_cluster


def brute_force(positions, cutoff):
    r = positions.astype("f8")
    distances = np.linalg.norm(r[:, None] - r[None], axis=-1)
    return {(int(i), int(j)) for i, j in np.argwhere((distances < cutoff) & (distances > 0))}


@pytest.mark.parametrize(("n", "e"), [(8, 40), (60, 500), (64, 688)])
def test_cluster_has_exactly_the_pairs_within_the_cutoff(n, e):
    found = cluster(n, e, seed=3)
    pairs = set(zip(found["senders"].tolist(), found["receivers"].tolist(), strict=True))
    assert len(found["senders"]) == len(pairs) == e
    assert pairs == brute_force(found["positions"], found["cutoff"])
    assert np.all(np.diff(found["receivers"]) >= 0)


def test_large_cluster_agrees_with_brute_force():
    found = large_cluster(100, 3.0, seed=0)
    pairs = set(zip(found["senders"].tolist(), found["receivers"].tolist(), strict=True))
    assert pairs == brute_force(found["positions"], 3.0)


@pytest.mark.parametrize("edges", [3, 0, 10**6])
def test_impossible_numbers_of_edges_are_refused(edges):
    with pytest.raises(ValueError, match=str(edges)):
        cluster(8, edges, seed=0)


def test_inputs_are_the_same_each_time():
    case = next(c for c in CASES if c.name == "potential" and "smoke" in c.presets)
    first, second = draw(case), draw(case)
    assert all(np.array_equal(first[k], second[k]) for k in first)


def test_labels_tell_cases_apart():
    for preset in ("smoke", "full", "gpu"):
        names = [(c.name, c.label) for c in CASES if preset in c.presets]
        assert len(names) == len(set(names))


def test_random_numbers_depend_on_seed_and_name():
    one = normal(0, "x", (50, 4))
    assert np.array_equal(one, normal(0, "x", (50, 4)))
    assert not np.array_equal(one, normal(1, "x", (50, 4)))
    assert not np.array_equal(one, normal(0, "y", (50, 4)))
    drawn = weights(0, {"a.alpha.weight": 1000, "a.sc.weight": 1000, "none": 0})
    assert set(drawn) == {"a.alpha.weight", "a.sc.weight"}
    assert drawn["a.alpha.weight"].std() == pytest.approx(0.1, rel=0.1)


def test_dim_counts_components():
    assert dim("4x0e + 2x1o + 3e") == 4 + 6 + 7
