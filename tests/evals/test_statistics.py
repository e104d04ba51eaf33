"""Medians, spreads and paired ratios of the benchmark."""

from __future__ import annotations

import numpy as np
import pytest
from benchmark.statistics import Spread, speedup


def test_spread_is_median_and_percentiles():
    spread = Spread.of(list(range(101)))
    assert (spread.low, spread.median, spread.high) == (10.0, 50.0, 90.0)


def test_ratios_are_paired():
    # Noise that hits both at the same time leaves no trace in paired ratios.
    noise = np.random.default_rng(0).uniform(1.0, 20.0, 30)
    ratio = speedup(3.0 * noise, noise)
    assert ratio.low == pytest.approx(3.0)
    assert ratio.high == pytest.approx(3.0)
    unpaired = Spread.of(3.0 * noise).median / Spread.of(np.roll(noise, 1)).median
    assert unpaired == pytest.approx(3.0)
    assert speedup(3.0 * noise, np.roll(noise, 1)).high > 4.0


def test_speedup_says_how_many_times_faster():
    assert speedup([2.0, 2.0], [1.0, 1.0]).median == 2.0


@pytest.mark.parametrize("values", [[], [1.0, float("nan")], [float("inf")]])
def test_spread_refuses_what_is_no_number(values):
    with pytest.raises(ValueError, match="finite"):
        Spread.of(values)


@pytest.mark.parametrize(("a", "b", "match"), [([1.0], [1.0, 2.0], "pairs"), ([0.0], [1.0], "pos")])
def test_speedup_refuses_what_cannot_be_paired(a, b, match):
    with pytest.raises(ValueError, match=match):
        speedup(a, b)
