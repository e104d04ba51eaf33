"""Pair distances as radial distribution functions."""

from __future__ import annotations

import numpy as np
from ase.build import bulk

from mlpot.md import PairDistances


def test_random_places_have_no_order():
    rng = np.random.default_rng(0)
    numbers = np.repeat([8, 14], [100, 200])
    distances = PairDistances(numbers, np.eye(3) * 14.0, [True] * 3, r_max=6.0, n_bins=12)
    for _ in range(60):
        distances.add(rng.random((300, 3)) * 14.0)
    curves = distances.curves()
    assert list(curves) == ["O-O", "O-Si", "Si-Si"]
    for curve in curves.values():
        np.testing.assert_allclose(curve[4:], 1.0, atol=0.1)


def test_first_shell_of_a_crystal_and_of_a_molecule():
    copper = bulk("Cu")
    distances = PairDistances(copper.numbers, copper.cell, copper.pbc, r_max=3.0, n_bins=30)
    distances.add(copper.positions)
    curve = distances.curves()["Cu-Cu"]
    shells = 4 / 3 * np.pi * np.diff(distances.edges**3) / copper.get_volume()
    assert round(float(curve @ shells)) == 12
    pair = PairDistances([1, 8], np.zeros((3, 3)), [False] * 3, r_max=2.0, n_bins=20)
    pair.add(np.array([[0.0, 0, 0], [0.95, 0, 0]]))
    curve = pair.curves()["H-O"]
    assert distances.periodic and not pair.periodic
    assert curve[9] == np.max(curve) and np.isclose(curve.sum() * 0.1, 1.0)
