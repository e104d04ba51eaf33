"""Several models as one calculator, and models given by path or pattern."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from small_potentials import make_potential

import mlpot
from mlpot.calculators import MLPotCalculator


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for seed in (1, 2):
        mlpot.save(folder / f"run{seed}.safetensors", make_potential(seed, cutoff=2.0 + 0.5 * seed))
    return folder


def test_means_and_variances(folder, crystal):
    paths = [folder / "run1.safetensors", folder / "run2.safetensors"]
    committee = MLPotCalculator(paths, dtype="float64")
    alone = [MLPotCalculator(path, dtype="float64") for path in paths]
    assert committee.cutoff == 3.0
    energies = np.array([one.get_potential_energy(crystal) for one in alone])
    forces = np.array([one.get_forces(crystal) for one in alone])
    stress = np.array([one.get_stress(crystal) for one in alone])
    crystal.calc = committee
    assert crystal.get_potential_energy() == pytest.approx(energies.mean(), rel=1e-13)
    np.testing.assert_allclose(crystal.get_forces(), forces.mean(axis=0), atol=1e-10)
    np.testing.assert_allclose(crystal.get_stress(), stress.mean(axis=0), atol=1e-10)
    half = 0.5 * (energies[0] - energies[1])
    assert committee.get_property("energy_var", crystal) == pytest.approx(half**2, rel=1e-8)
    np.testing.assert_allclose(
        committee.get_property("forces_var", crystal),
        (0.5 * (forces[0] - forces[1])) ** 2,
        atol=1e-9,
    )
    np.testing.assert_allclose(committee.get_property("forces_comm", crystal), forces, atol=1e-10)
    v = np.ones((5, 3)) * np.arange(3)
    np.testing.assert_allclose(
        committee.get_hvp(crystal, v),
        np.mean([one.get_hvp(crystal, v) for one in alone], axis=0),
        atol=1e-9,
    )
    np.testing.assert_allclose(
        committee.get_hessian(crystal) @ v.ravel(), committee.get_hvp(crystal, v).ravel(), atol=1e-9
    )


def test_a_pattern_is_a_committee_in_sorted_order(folder, crystal):
    found = MLPotCalculator(str(folder / "run*.safetensors"), dtype="float64")
    assert [member.cutoff for member in found.members] == [2.5, 3.0]
    assert copy.deepcopy(found).get_property("energy_var", crystal) > 0


def test_one_model_has_no_variance(potential):
    assert "energy_var" not in MLPotCalculator(potential).implemented_properties
    assert "energy_var" in MLPotCalculator([potential, potential]).implemented_properties
    assert "energy_var" not in MLPotCalculator.implemented_properties


def test_missing_and_damaged_files_are_named(folder, tmp_path):
    with pytest.raises(FileNotFoundError, match="absent"):
        MLPotCalculator(tmp_path / "absent.safetensors")
    with pytest.raises(FileNotFoundError, match="pattern"):
        MLPotCalculator(str(tmp_path / "*.safetensors"))
    with pytest.raises(ValueError, match="no model"):
        MLPotCalculator([])
    damaged = tmp_path / "damaged.safetensors"
    damaged.write_bytes((folder / "run1.safetensors").read_bytes()[:-100])
    with pytest.raises(ValueError, match="damaged"):
        MLPotCalculator(damaged)
