"""Learning rates and running averages against their formulas."""

from __future__ import annotations

import math

import mlx.core as mx
import numpy as np
import pytest

from mlpot.training.average import decay_at, mixed
from mlpot.training.config_sections import SchedulerSection
from mlpot.training.schedule import Schedule


def test_cosine_with_warmup():
    section = SchedulerSection(name="cosine", warmup_epochs=2, final_fraction=0.1)
    schedule = Schedule(section, lr=0.5, steps_per_epoch=10, n_epochs=12)
    rates = [schedule.rate(step) for step in range(120)]
    assert rates[0] == pytest.approx(0.5 / 20)
    assert rates[19] == pytest.approx(0.5)
    assert rates[20] == pytest.approx(0.5)
    assert rates[70] == pytest.approx(0.5 * (0.1 + 0.9 / 2))
    assert schedule.rate(120) == pytest.approx(0.05)
    assert all(math.isfinite(rate) and rate > 0 for rate in rates)
    assert max(rates) == rates[20]


def test_plateau_waits_and_survives_storing():
    section = SchedulerSection(
        name="plateau", warmup_epochs=0, patience=2, factor=0.5, final_fraction=0.2
    )
    schedule = Schedule(section, lr=1.0, steps_per_epoch=1, n_epochs=100)
    rates = []
    for loss in [3.0, 2.0, 2.5, 2.0, 1.9, 5.0, 5.0, math.nan, 5.0, 5.0, 5.0]:
        schedule.observe(loss)
        stored = schedule.state()
        schedule = Schedule(section, lr=1.0, steps_per_epoch=1, n_epochs=100)
        schedule.load(stored)
        rates.append(schedule.rate(7))
    assert rates == [1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.2, 0.2, 0.2]


def test_constant():
    schedule = Schedule(SchedulerSection(name="constant", warmup_epochs=0), 0.3, 10, 10)
    assert {schedule.rate(step) for step in range(100)} == {0.3}


def test_running_average():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(6, 2, 3))
    average = {"layer.weight": mx.array(values[0], dtype=mx.float64)}
    expected = values[0]
    with mx.stream(mx.cpu):
        for step, value in enumerate(values[1:]):
            decay = decay_at(step, 0.9)
            expected = decay * expected + (1 - decay) * value
            new = {"layer.weight": mx.array(value, dtype=mx.float64)}
            average = mixed(average, new, mx.array(decay, dtype=mx.float64))
    np.testing.assert_allclose(np.array(average["layer.weight"]), expected, rtol=1e-14)


def test_a_stage_holds_its_rate():
    section = SchedulerSection(name="cosine", warmup_epochs=0)
    held = Schedule(section, 0.1, 5, 10, {4: 0.02, 8: 0.001})
    free = Schedule(section, 0.1, 5, 10)
    assert [held.rate(step) for step in range(15)] == [free.rate(step) for step in range(15)]
    assert {held.rate(step) for step in range(15, 35)} == {0.02}
    assert {held.rate(step) for step in range(35, 50)} == {0.001}


def test_average_starts_quickly_and_ends_at_the_decay():
    decays = [decay_at(step, 0.99) for step in range(2000)]
    assert decays[0] == pytest.approx(0.1)
    assert decays == sorted(decays)
    assert decays[-1] == 0.99
