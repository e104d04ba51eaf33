"""Mean squared displacements of motions that are known."""

from __future__ import annotations

import numpy as np

from mlpot.md import mean_squared_displacement


def test_straight_flight_and_random_walk():
    times = np.arange(400.0)
    velocities = np.array([[0.1, 0.0, 0.0], [0.0, -0.2, 0.1]])
    flight = times[:, None, None] * velocities
    curves = mean_squared_displacement(flight, [1, 8])
    assert list(curves) == ["H", "O"]
    np.testing.assert_allclose(curves["H"], 0.01 * times[:201] ** 2)
    np.testing.assert_allclose(curves["O"], 0.05 * times[:201] ** 2)
    walk = np.cumsum(np.random.default_rng(0).normal(0.0, 0.3, (400, 300, 3)), axis=0)
    curve = mean_squared_displacement(walk, np.full(300, 18))["Ar"]
    np.testing.assert_allclose(curve[:50], 3 * 0.09 * np.arange(50), rtol=0.05, atol=1e-9)


def test_drift_of_the_whole_can_be_taken_out():
    steps = np.random.default_rng(1).normal(size=(50, 1, 3)).repeat(4, axis=1)
    curves = mean_squared_displacement(np.cumsum(steps, axis=0), [6] * 4, masses=[12.0] * 4)
    assert np.abs(curves["C"]).max() < 1e-20
