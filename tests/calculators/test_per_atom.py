"""Virials, stresses and descriptors of single atoms; dispersion as an addition."""

from __future__ import annotations

import copy
import pickle

import mlx.core as mx
import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk, molecule
from ase.calculators.calculator import PropertyNotImplementedError
from small_potentials import make_crystal, make_potential

from mlpot import derivatives, graph, workflows
from mlpot.calculators import MLPotCalculator, with_d3
from mlpot.models import Potential, PotentialConfig

MODELS = ["v2106", "gate_points", "nequip"]


def potential_of(name: str) -> Potential:
    mx.random.seed(4)
    model = {"name": name, "channels": 4, "lmax": 1, "layers": 2, "radial": "exact"}
    config = {"numbers": [1, 6, 8], "cutoff": 3.0, "model": model}
    return Potential(PotentialConfig.model_validate(config))


@pytest.fixture(scope="module")
def calc() -> MLPotCalculator:
    return MLPotCalculator(make_potential(1), dtype="float64")


def test_virials_add_up_to_the_stress(calc, crystal):
    virials = calc.get_virials(crystal)
    stress = calc.get_property("stress", crystal)
    total = -virials.sum(axis=0) / crystal.cell.volume
    np.testing.assert_allclose(total[[0, 1, 2, 1, 0, 0], [0, 1, 2, 2, 2, 1]], stress, atol=1e-12)
    np.testing.assert_allclose(virials, virials.swapaxes(1, 2), atol=1e-14)
    stresses = calc.get_property("stresses", crystal)
    assert stresses.shape == (5, 6)
    np.testing.assert_allclose(stresses.sum(axis=0), stress, atol=1e-12)


def test_virial_of_a_pair_is_shared_in_halves(calc):
    """Without a cell: W = r (x) f for two atoms, half each."""
    pair = Atoms("CO", [[0.1, 0.2, 0.0], [0.9, 0.7, 0.5]])
    arm = pair.positions[1] - pair.positions[0]
    force = calc.get_forces(pair)[1]
    found = calc.get_virials(pair)
    np.testing.assert_allclose(found[0], 0.5 * np.outer(arm, force), atol=1e-10)
    np.testing.assert_allclose(found[1], found[0], atol=1e-12)


def test_virials_of_parts_that_do_not_see_each_other(calc):
    """Far from each other each molecule has its own virial."""
    one, two = molecule("H2O"), molecule("CO")
    two.positions += 20.0
    both = calc.get_virials(one + two)
    np.testing.assert_allclose(both[:3], calc.get_virials(one), atol=1e-10)
    np.testing.assert_allclose(both[3:], calc.get_virials(two), atol=1e-10)


def test_stresses_need_a_cell(calc):
    with pytest.raises(PropertyNotImplementedError, match="three periodic directions"):
        calc.get_property("stresses", molecule("H2O"))


def test_stresses_are_never_those_of_before(calc, crystal):
    first = calc.get_property("stresses", crystal)
    crystal.positions[0] += 0.1
    assert np.abs(calc.get_property("stresses", crystal) - first).max() > 1e-6
    calc.get_property("energy", crystal)
    fresh = MLPotCalculator(calc.members, dtype="float64")
    np.testing.assert_allclose(
        calc.get_property("stresses", crystal), fresh.get_property("stresses", crystal), atol=1e-12
    )


@pytest.mark.parametrize("name", MODELS)
def test_descriptors_are_invariant_and_follow_permutations(name, crystal):
    calc = MLPotCalculator(potential_of(name), dtype="float64")
    found = calc.get_descriptors(crystal)
    assert found.shape[0] == 5 and found.shape[1] >= 8
    assert np.ptp(found, axis=0).max() > 1e-3
    turned = crystal.copy()
    turned.rotate(50.0, (1, 2, 3), rotate_cell=True)
    turned.positions += [1.0, 2.0, 3.0]
    np.testing.assert_allclose(calc.get_descriptors(turned), found, atol=1e-9)
    mirrored = crystal.copy()
    mirrored.set_cell(crystal.cell.array * [1, 1, -1])
    mirrored.positions = crystal.positions * [1, 1, -1]
    np.testing.assert_allclose(calc.get_descriptors(mirrored), found, atol=1e-9)
    order = [4, 2, 0, 1, 3]
    np.testing.assert_allclose(calc.get_descriptors(crystal[order]), found[order], atol=1e-10)


@pytest.mark.parametrize("name", MODELS)
def test_descriptors_tell_atoms_that_see_different_things(name):
    """The oxygen atoms of carbon dioxide are alike; with another atom beside one they differ."""
    calc = MLPotCalculator(potential_of(name), dtype="float64")
    carbon_dioxide = molecule("CO2")
    same = calc.get_descriptors(carbon_dioxide)
    np.testing.assert_allclose(same[1], same[2], atol=1e-9)
    different = calc.get_descriptors(
        carbon_dioxide + Atoms("H", [carbon_dioxide.positions[1] + [0.8, 0.0, 0.5]])
    )
    assert np.abs(different[1] - different[2]).max() > 1e-3


def test_a_committee_has_mean_virials_and_no_descriptors(crystal):
    both = MLPotCalculator([make_potential(1), make_potential(2)], dtype="float64")
    with pytest.raises(ValueError, match="committee of 2"):
        both.get_descriptors(crystal)
    each = [MLPotCalculator(m, dtype="float64").get_virials(crystal) for m in both.members]
    np.testing.assert_allclose(both.get_virials(crystal), np.mean(each, axis=0), atol=1e-12)


def test_padding_has_no_virial():
    potential = make_potential(1)
    atoms = make_crystal()
    built = graph.build(atoms.numbers, atoms.positions, atoms.cell.array, True, cutoff=3.0)
    padded = graph.pad(built, n_atoms=8, n_edges=built.n_edges + 16)
    found = np.array(derivatives.virials(potential, padded))
    np.testing.assert_allclose(
        found[:5], np.array(derivatives.virials(potential, built)), atol=1e-6
    )
    assert np.all(found[5:] == 0)


def test_dispersion_is_added(calc):
    from dftd3.ase import DFTD3

    atoms = molecule("H2O")
    atoms.positions += [5.0, 5.0, 5.0]
    alone = DFTD3(method="pbe", damping="d3bj")
    summed = with_d3(calc, "pbe")
    for name in ("energy", "forces"):
        expected = calc.get_property(name, atoms) + alone.get_property(name, atoms)
        np.testing.assert_allclose(summed.get_property(name, atoms), expected, atol=1e-12)
    assert alone.get_potential_energy(atoms) < -1e-3
    atoms.positions[0] += 0.05
    again = calc.get_potential_energy(atoms) + alone.get_potential_energy(atoms)
    assert summed.get_potential_energy(atoms) == pytest.approx(again, abs=1e-10)


def test_dispersion_in_a_crystal_and_a_workflow():
    """Stress by finite strain, and phonons by displacements."""
    unit = bulk("C", a=3.5)
    unit.calc = with_d3(MLPotCalculator(make_potential(3), dtype="float64"))
    stress, step, energies = unit.get_stress(), 1e-4, []
    for sign in (1, -1):
        strained = unit.copy()
        strained.set_cell(unit.cell.array * (1 + sign * step), scale_atoms=True)
        strained.calc = unit.calc
        energies.append(strained.get_potential_energy())
    slope = (energies[0] - energies[1]) / (2 * step) / unit.cell.volume
    assert stress[:3].sum() == pytest.approx(slope, rel=1e-4)
    with pytest.raises(ValueError, match="gives no second derivatives"):
        workflows.elastic(unit, unit.calc, relax=False, method="derivatives")


@pytest.mark.parametrize("given", [("nothing", "d3bj"), ("pbe", "d9")])
def test_unknown_parameters_of_dispersion(calc, given):
    with pytest.raises(ValueError, match="dftd3 has no parameters"):
        with_d3(calc, *given)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda a: pickle.loads(pickle.dumps(a))])
def test_sums_with_dispersion_are_copied(copied):
    # Pools of processes and copies of structures with calculators need that.
    atoms = molecule("H2O")
    calc = with_d3(MLPotCalculator(make_potential(5), dtype="float64"), "b3lyp", "d3zero")
    wanted = calc.get_potential_energy(atoms)
    assert copied(calc).get_potential_energy(atoms) == pytest.approx(wanted, abs=1e-10)
