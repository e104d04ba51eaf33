"""When two implementations count as having computed the same."""

from __future__ import annotations

import numpy as np
import pytest
from benchmark import worker
from benchmark.agreement import difference

WANTED = {"out": np.array([[1.0, -4.0], [2.0, 0.5]], dtype="f4"), "d_x": np.array([2e-3])}


def test_same_numbers_agree_in_any_shape():
    found = {"out": WANTED["out"].ravel(), "d_x": WANTED["d_x"]}
    assert difference(found, WANTED) == 0.0


@pytest.mark.parametrize("name", ["out", "d_x"])
def test_each_output_has_its_own_scale(name):
    found = dict(WANTED)
    found[name] = WANTED[name] * (1 + 1e-3)
    assert difference(found, WANTED) == pytest.approx(1e-3, rel=1e-3)


@pytest.mark.parametrize(
    "found",
    [
        {"out": WANTED["out"]},
        WANTED | {"d_y": np.zeros(1)},
        WANTED | {"d_x": np.zeros(2)},
        WANTED | {"d_x": np.array([np.nan])},
    ],
    ids=["missing", "unknown", "size", "nan"],
)
def test_anything_else_is_infinitely_far(found):
    assert difference(found, WANTED) == float("inf")


def test_zero_is_matched_by_zero_only():
    zero = {"out": np.zeros(3)}
    assert difference(zero, zero) == 0.0
    assert difference({"out": np.full(3, 1e-9)}, zero) == float("inf")


def test_large_outputs_are_sampled_in_every_column(monkeypatch):
    monkeypatch.setattr(worker, "LARGEST", 1000)
    array = np.arange(12_000).reshape(-1, 12)
    found = worker.sample(array)
    assert 500 < found.size <= 1000
    assert set(found % 12) == set(range(12))
    assert np.array_equal(worker.sample(array[:50]), array[:50])
