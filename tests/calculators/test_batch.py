"""Several structures computed together behind calculators of their own."""

from __future__ import annotations

import numpy as np
import pytest
from ase import Atoms
from small_potentials import make_crystal, make_potential

from mlpot.calculators import CalculatorBatch, MLPotCalculator


@pytest.fixture
def structures() -> list[Atoms]:
    molecule = Atoms("OHH", [[0.0, 0, 0], [0.9, 0.1, 0], [-0.2, 0.9, 0.1]])
    return [make_crystal(1), molecule, make_crystal(2)]


@pytest.mark.parametrize("n_members", [1, 2])
def test_shares_equal_single_calculations(structures, n_members):
    calc = MLPotCalculator([make_potential(seed) for seed in range(n_members)], dtype="float64")
    whole = CalculatorBatch(calc, structures)
    for atoms, share in zip(structures, whole.calculators, strict=True):
        atoms.calc = share
    for _ in range(2):
        for atoms in structures:
            alone = atoms.copy()
            alone.calc = calc
            energy, forces = atoms.get_potential_energy(), atoms.get_forces()
            assert energy == pytest.approx(alone.get_potential_energy(), rel=1e-13)
            np.testing.assert_allclose(forces, alone.get_forces(), atol=1e-11)
            np.testing.assert_allclose(
                atoms.calc.results["energies"], alone.get_potential_energies(), rtol=1e-12
            )
        for number, atoms in enumerate(structures):
            atoms.positions += 0.05 * np.random.default_rng(number).normal(size=(len(atoms), 3))
    assert whole.evaluations == 2


def test_one_moved_alone_is_never_stale(structures):
    calc = MLPotCalculator(make_potential(), dtype="float64")
    whole = CalculatorBatch(calc, structures)
    for atoms, share in zip(structures, whole.calculators, strict=True):
        atoms.calc = share
    before = [atoms.get_potential_energy() for atoms in structures]
    structures[1].positions[0] += 0.1
    alone = structures[1].copy()
    alone.calc = calc
    assert structures[1].get_potential_energy() == pytest.approx(alone.get_potential_energy())
    assert structures[1].get_potential_energy() != before[1]
    assert structures[0].get_potential_energy() == before[0]


def test_unknown_elements_are_named(structures):
    whole = CalculatorBatch(MLPotCalculator(make_potential()), [*structures, Atoms("Au")])
    structures[0].calc = whole.calculators[0]
    with pytest.raises(ValueError, match="Au"):
        structures[0].get_potential_energy()
