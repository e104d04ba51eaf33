"""What ASE users meet: results, errors, periodicity, committees."""

from __future__ import annotations

import numpy as np
import pytest
from ase import Atoms
from ase.calculators.calculator import PropertyNotImplementedError
from sample_potentials import E0S, copper, make_potential, small_network, triclinic

from mlpot.calculators import MLPotCalculator


@pytest.fixture(scope="module", params=["metal", "network"])
def potential(request):
    return make_potential(request.param)


def test_results(potential):
    atoms = triclinic()
    atoms.calc = MLPotCalculator(potential, dtype="float64")
    assert atoms.get_potential_energy() == pytest.approx(atoms.get_potential_energies().sum())
    assert atoms.get_potential_energy(force_consistent=True) == atoms.get_potential_energy()
    assert atoms.get_forces().shape == (4, 3)
    assert set(atoms.calc.results) == {"energy", "free_energy", "energies", "forces", "stress"}
    np.testing.assert_allclose(atoms.get_forces().sum(axis=0), 0, atol=1e-11)
    full = atoms.get_stress(voigt=False)
    np.testing.assert_array_equal(full[[0, 1, 2, 1, 0, 0], [0, 1, 2, 2, 2, 1]], atoms.get_stress())


def test_float32_is_close_to_float64(potential):
    atoms = triclinic()
    single, double = (MLPotCalculator(potential, dtype=d) for d in ("float32", "float64"))
    for name, tolerance in (("energy", 2e-5), ("forces", 2e-5), ("stress", 1e-6)):
        a, b = (calc.get_property(name, atoms) for calc in (single, double))
        assert np.asarray(a).dtype == np.float64
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance)


def test_isolated_atoms_have_their_own_energy(potential):
    calculator = MLPotCalculator(potential)
    for number, expected in E0S.items():
        assert calculator.get_property("energy", Atoms(numbers=[number])) == expected
    far = Atoms("AlCu", positions=[[0, 0, 0], [0, 0, 50.0]], calculator=calculator)
    assert far.get_potential_energy() == sum(E0S.values())
    assert np.array_equal(far.get_forces(), np.zeros((2, 3)))
    assert np.array_equal(calculator.get_hessian(far), np.zeros((6, 6)))


@pytest.mark.parametrize("pbc", [False, (True, True, False), (False, False, True)])
def test_no_stress_without_three_periodic_directions(potential, pbc):
    atoms = triclinic()
    atoms.pbc = pbc
    atoms.calc = MLPotCalculator(potential)
    with pytest.raises(PropertyNotImplementedError, match="three periodic directions"):
        atoms.get_stress()
    assert np.isfinite(atoms.get_potential_energy())
    with pytest.raises(PropertyNotImplementedError):
        atoms.get_dipole_moment()


def test_open_directions_ignore_their_cell_vectors(potential):
    calculator = MLPotCalculator(potential, dtype="float64")
    slab = triclinic()
    slab.pbc = (True, True, False)
    expected = calculator.get_property("forces", slab)
    for third in ([0, 0, 0], [0, 0, 1e-3], [5.0, 1.0, 0.3]):
        other = slab.copy()
        other.cell[2] = third
        np.testing.assert_allclose(
            calculator.get_property("forces", other), expected, atol=1e-12 * np.abs(expected).max()
        )
    molecule = triclinic()
    molecule.pbc = False
    dummy = molecule.copy()
    molecule.cell = None
    assert calculator.get_property("energy", molecule) == pytest.approx(
        calculator.get_property("energy", dummy), abs=1e-11
    )


def test_periodic_images_and_translations_are_equal(potential):
    atoms = triclinic()
    expected = MLPotCalculator(potential, dtype="float64").get_property("forces", atoms)
    rng = np.random.default_rng(3)
    for skin in (0.0, 0.5):
        calculator = MLPotCalculator(potential, dtype="float64", skin=skin)
        for _ in range(4):
            other = atoms.copy()
            other.positions += rng.integers(-9, 9, (4, 3)) @ atoms.cell + rng.normal(size=3) * 100
            found = calculator.get_property("forces", other)
            np.testing.assert_allclose(found, expected, atol=1e-10 * np.abs(expected).max())


def test_input_is_never_changed(potential):
    atoms = triclinic()
    atoms.positions += 20
    atoms.set_initial_charges([0.1] * 4)
    before = atoms.copy()
    calculator = MLPotCalculator(potential)
    calculator.get_property("stress", atoms)
    calculator.get_hvp(atoms, np.ones((4, 3)))
    calculator.get_hessian(atoms)
    assert atoms == before
    assert set(atoms.arrays) == set(before.arrays)
    assert atoms.info == {}


def test_returned_arrays_are_copies(potential):
    atoms = triclinic()
    atoms.calc = MLPotCalculator(potential)
    expected = atoms.get_forces().copy()
    atoms.get_forces()[:] = 0
    np.testing.assert_array_equal(atoms.get_forces(), expected)


def test_unknown_elements_are_named(potential):
    atoms = Atoms("CuAuO", positions=np.eye(3) * 3, calculator=MLPotCalculator(potential))
    with pytest.raises(ValueError, match=r"O.*Au.*Al, Cu"):
        atoms.get_potential_energy()


def test_empty_atoms(potential):
    calculator = MLPotCalculator(potential)
    with pytest.raises(ValueError, match="no atoms"):
        calculator.get_property("energy", Atoms())
    with pytest.raises(ValueError, match="no atoms"):
        calculator.calculate()


def test_damaged_structures(potential):
    calculator = MLPotCalculator(potential)
    atoms = triclinic()
    good = calculator.get_property("energy", atoms)
    broken = atoms.copy()
    broken.positions[2, 1] = np.nan
    with pytest.raises(ValueError, match="atom 2 is not finite"):
        calculator.get_property("energy", broken)
    same = atoms.copy()
    same.positions[1] = same.positions[0] + atoms.cell[2]
    with pytest.raises(ValueError, match="same place"):
        calculator.get_property("energy", same)
    flat = atoms.copy()
    flat.cell[2] = flat.cell[1]
    with pytest.raises(ValueError, match="linearly dependent"):
        calculator.get_property("energy", flat)
    assert calculator.get_property("energy", atoms) == pytest.approx(good, abs=1e-3)


def test_committee():
    members = [small_network(seed) for seed in (1, 2, 3)]
    single = [MLPotCalculator(member, dtype="float64") for member in members]
    committee = MLPotCalculator(members, dtype="float64")
    atoms = triclinic()
    energies = [calc.get_property("energy", atoms) for calc in single]
    forces = np.array([calc.get_property("forces", atoms) for calc in single])
    assert committee.get_property("energy", atoms) == pytest.approx(np.mean(energies), abs=1e-9)
    # The variance of numbers near -3e4 has rounding errors of its own.
    assert committee.get_property("energy_var", atoms) == pytest.approx(np.var(energies), rel=1e-6)
    assert np.var(energies) > 1e-4
    np.testing.assert_allclose(committee.get_property("forces_comm", atoms), forces, atol=1e-10)
    np.testing.assert_allclose(
        committee.get_property("forces_var", atoms), np.var(forces, axis=0), atol=1e-10
    )
    with pytest.raises(PropertyNotImplementedError):
        single[0].get_property("energy_var", atoms)


def test_committee_with_different_cutoffs():
    from embedded_atoms import EmbeddedAtoms

    long, short = EmbeddedAtoms(cutoff=5.0), EmbeddedAtoms(cutoff=3.2)
    atoms = copper()
    expected = [
        MLPotCalculator(one, dtype="float64").get_property("energy", atoms) for one in (long, short)
    ]
    both = MLPotCalculator([short, long], dtype="float64")
    assert both.cutoff == 5.0
    assert both.get_property("energy", atoms) == pytest.approx(np.mean(expected), abs=1e-10)
    assert abs(expected[0] - expected[1]) > 1
