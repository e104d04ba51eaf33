"""How the benchmark finds the largest system that fits."""

from __future__ import annotations

import pytest
from benchmark.memory import grow


def device(most: int):
    """A device with room for so many atoms of 10 bytes."""

    def run(n):
        ok = {"status": "ok", "peak_bytes": 10 * n} if n <= most else {"status": "failed: full"}
        return {"n_atoms": n} | ok

    return run


@pytest.mark.parametrize("most", [100, 500, 799, 640])
def test_the_largest_that_fits_is_within_a_quarter(most):
    rows = grow(device(most), 100, float("inf"))
    best = max(row["n_atoms"] for row in rows if row["status"] == "ok")
    assert best <= most < best * 1.25 + 1


def test_growth_ends_beyond_the_limit():
    rows = grow(device(10**6), 100, 2500)
    assert [row["n_atoms"] for row in rows] == [100, 200, 400]


def test_nothing_fits():
    rows = grow(device(10), 100, 1e9)
    assert [row["status"] for row in rows] == ["failed: full"]
