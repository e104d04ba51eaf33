"""ZBL added to a calculator against ZBL in the potential from the start and against its formula."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk
from ase.calculators.emt import EMT
from ase.calculators.test import calculate_numerical_forces
from small_potentials import make_potential

import mlpot
from mlpot.calculators import MLPotCalculator, with_zbl
from mlpot.elements import COVALENT_RADII


def potential(zbl: bool) -> mlpot.models.Potential:
    found = make_potential(0)
    config = found.config.model_copy(update={"zbl": zbl})
    other = mlpot.models.Potential(config)
    other.update(found.parameters())
    return other


def close_pair(distance: float) -> Atoms:
    numbers = potential(False).numbers
    return Atoms([numbers[0], numbers[-1]], [[0, 0, 0], [0, 0, distance]])


def zbl_energy(z1: int, z2: int, r: float) -> float:
    """The formula as published, with this package's switch to zero at the covalent radii."""
    a = 0.8854 * 0.529177210903 / (z1**0.23 + z2**0.23)
    terms = zip(
        (0.18175, 0.50986, 0.28022, 0.02817), (3.1998, 0.94229, 0.4029, 0.20162), strict=True
    )
    x = r / (COVALENT_RADII[z1] + COVALENT_RADII[z2])
    switch = 1 - 28 * x**6 + 48 * x**7 - 21 * x**8
    return z1 * z2 * 14.3996454 / r * sum(c * np.exp(-d * r / a) for c, d in terms) * switch


@pytest.mark.parametrize("distance", [0.3, 0.7])
def test_what_is_added(distance):
    plain = MLPotCalculator(potential(False), dtype="float64")
    both, pair = with_zbl(plain), close_pair(distance)
    added = both.get_potential_energy(pair) - plain.get_potential_energy(pair)
    assert added > 1.0
    assert added == pytest.approx(zbl_energy(*map(int, pair.numbers), distance), rel=1e-6)
    assert plain.potential.config.zbl is False and both.potential.config.zbl is True
    pair.calc = both
    differences = calculate_numerical_forces(pair, eps=1e-5)
    np.testing.assert_allclose(pair.get_forces(), differences, rtol=1e-5, atol=1e-5)


def test_the_same_as_from_the_start(tmp_path):
    atoms = bulk("AlCu", "rocksalt", a=3.0)
    atoms.numbers[:] = (potential(False).numbers * 2)[:2]
    atoms.rattle(0.05, seed=1)
    own = MLPotCalculator(potential(True), dtype="float64")
    added = with_zbl(MLPotCalculator([potential(False)] * 2, dtype="float64", skin=0.1))
    mlpot.save(tmp_path / "with.safetensors", potential(False).with_zbl())
    saved = MLPotCalculator(tmp_path / "with.safetensors", dtype="float64")
    assert added.skin == 0.1 and len(added.members) == 2 and "ZBL" in added.parameters["model"]
    twins = (copy.deepcopy(added), pickle.loads(pickle.dumps(added)), added.astype("float64"))
    for calc in (added, saved, *twins):
        np.testing.assert_allclose(calc.get_forces(atoms), own.get_forces(atoms), atol=1e-12)
        np.testing.assert_allclose(calc.get_stress(atoms), own.get_stress(atoms), atol=1e-12)
    np.testing.assert_allclose(saved.get_hessian(atoms), own.get_hessian(atoms), atol=1e-10)


def test_refusals():
    with pytest.raises(ValueError, match="has the ZBL repulsion already"):
        with_zbl(MLPotCalculator(potential(True)))
    with pytest.raises(ValueError, match="EMT has no potentials"):
        with_zbl(EMT())
