"""First velocities: distribution and motion of the whole."""

from __future__ import annotations

import numpy as np
import pytest

from mlpot.md import degrees_of_freedom, maxwell_boltzmann
from mlpot.units import KB

LINE = np.array([[0.0, 0, 0], [1, 1, 0], [3, 3, 0]])
BENT = np.array([[0.0, 0, 0], [1, 1, 0], [3, 2, 0.5]])
MASSES = np.array([1.0, 12.0, 16.0])


@pytest.mark.parametrize(
    ("positions", "rotation", "free"),
    [(LINE, False, 6), (LINE, True, 4), (BENT, True, 3), (BENT[:1], True, 3)],
)
def test_mean_kinetic_energy_is_half_kT_for_each_freedom(positions, rotation, free):
    masses = MASSES[: len(positions)]
    assert degrees_of_freedom(masses, positions, rotation=rotation) == free
    rng = np.random.default_rng(0)
    draws = 4000
    kinetic = [
        (maxwell_boltzmann(masses, positions, 300.0, rng, rotation=rotation) ** 2).sum(axis=1)
        @ (0.5 / masses)
        for _ in range(draws)
    ]
    expected = 0.5 * free * KB * 300.0
    # The energy follows a gamma distribution: its spread is expected * sqrt(2 / free).
    error = expected * np.sqrt(2 / free / draws)
    assert np.mean(kinetic) == pytest.approx(expected, abs=4 * error)


@pytest.mark.parametrize("positions", [LINE, BENT])
def test_whole_is_at_rest(positions):
    rng = np.random.default_rng(1)
    momenta = maxwell_boltzmann(MASSES, positions, 300.0, rng, rotation=True)
    np.testing.assert_allclose(momenta.sum(axis=0), 0, atol=1e-13)
    centre = MASSES @ positions / MASSES.sum()
    np.testing.assert_allclose(np.cross(positions - centre, momenta).sum(axis=0), 0, atol=1e-12)
    assert np.abs(momenta).max() > 0.01
