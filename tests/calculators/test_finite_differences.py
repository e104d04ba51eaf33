"""Forces, stresses and second derivatives against central differences in float64."""

from __future__ import annotations

import re

import numpy as np
import pytest
from sample_potentials import copper, make_potential, triclinic

from mlpot.calculators import MLPotCalculator

KINDS = ["metal", "network"]


@pytest.fixture(scope="module", params=KINDS)
def calculator(request) -> MLPotCalculator:
    return MLPotCalculator(make_potential(request.param, E0s={}), dtype="float64")


def derivative(function, point: np.ndarray, direction: np.ndarray, step: float):
    """Derivative along a direction, central differences of fourth order."""
    values = [function(point + k * step * direction) for k in (-2, -1, 1, 2)]
    return (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * step)


def directions(n_directions: int, n_atoms: int) -> np.ndarray:
    """Random displacements of all atoms, (n_directions, n_atoms, 3)."""
    return np.random.default_rng(17).normal(size=(n_directions, n_atoms, 3))


@pytest.mark.parametrize("pbc", [(True,) * 3, (True, False, True), (False,) * 3])
def test_forces(calculator, pbc):
    atoms = triclinic()
    atoms.pbc = pbc
    forces = calculator.get_property("forces", atoms)
    scale = np.linalg.norm(forces)
    assert scale > 0.1

    def moved(positions):
        copy = atoms.copy()
        copy.positions = positions
        return calculator.get_property("energy", copy)

    for direction in directions(3, 4):
        expected = -derivative(moved, atoms.positions, direction, 5e-5)
        assert np.sum(forces * direction) == pytest.approx(expected, abs=1e-8 * scale)


def test_stress_all_components(calculator):
    atoms = triclinic()
    stress = calculator.get_property("stress", atoms)
    scale = np.abs(stress).max()

    def strained(voigt):
        xx, yy, zz, yz, xz, xy = voigt
        strain = np.array([[xx, xy / 2, xz / 2], [xy / 2, yy, yz / 2], [xz / 2, yz / 2, zz]])
        copy = atoms.copy()
        copy.set_cell(atoms.cell.array @ (np.eye(3) + strain), scale_atoms=True)
        return calculator.get_property("energy", copy)

    for component, direction in enumerate(np.eye(6)):
        expected = derivative(strained, np.zeros(6), direction, 5e-5) / atoms.get_volume()
        assert abs(expected) > 1e-3 * scale
        assert stress[component] == pytest.approx(expected, abs=1e-8 * scale)


def test_hessian_is_the_derivative_of_the_forces(calculator):
    atoms = triclinic()
    hessian = calculator.get_hessian(atoms)
    scale = np.abs(hessian).max()

    def forces(positions):
        copy = atoms.copy()
        copy.positions = positions
        return calculator.get_property("forces", copy).ravel()

    for direction in directions(4, 4):
        expected = -derivative(forces, atoms.positions, direction, 5e-5)
        np.testing.assert_allclose(hessian @ direction.ravel(), expected, atol=1e-8 * scale)
    np.testing.assert_allclose(hessian, hessian.T, atol=1e-12 * scale)
    np.testing.assert_allclose(hessian.reshape(12, 4, 3).sum(axis=1), 0, atol=1e-11 * scale)


def test_rotations_of_a_molecule_cost_nothing(calculator):
    atoms = triclinic()
    atoms.pbc = False
    hessian = calculator.get_hessian(atoms)
    forces = calculator.get_property("forces", atoms)
    scale = np.abs(hessian).max()
    for axis in np.eye(3):
        # A rotation turns the forces with the atoms: H (n x R) = -n x F.
        turned = hessian @ np.cross(axis, atoms.positions).ravel()
        np.testing.assert_allclose(turned, -np.cross(axis, forces).ravel(), atol=1e-10 * scale)


def test_hvp_is_hessian_times_vector(calculator):
    atoms = triclinic()
    v = np.random.default_rng(1).normal(size=(4, 3))
    product = calculator.get_hessian(atoms) @ v.ravel()
    found = calculator.get_hvp(atoms, v)
    assert found.shape == (4, 3)
    np.testing.assert_allclose(found.ravel(), product, atol=1e-12 * np.abs(product).max())
    np.testing.assert_array_equal(calculator.get_hvp(atoms, v.ravel()), found)
    calls = []
    several = calculator.get_hvps(
        atoms, [v, v, 3 * v], chunk=2, progress=lambda *c: calls.append(c)
    )
    expected = np.stack([found, found, 3 * found])
    np.testing.assert_allclose(several, expected, atol=1e-12 * np.abs(expected).max())
    assert calls == [(2, 3), (3, 3)]


def test_rows_and_chunks(calculator):
    atoms = triclinic()
    whole = calculator.get_hessian(atoms)
    calls = []
    rows = calculator.get_hessian(
        atoms, rows=[3, 1], chunk=4, progress=lambda *done: calls.append(done)
    )
    wanted = whole.reshape(4, 3, 12)[[3, 1]].reshape(6, 12)
    np.testing.assert_allclose(rows, wanted, atol=1e-12 * np.abs(whole).max())
    assert calls == [(4, 6), (6, 6)]


def test_self_images_of_a_one_atom_cell(calculator):
    primitive, cubic = copper(1, 0.0, cubic=False), copper(2, 0.0)
    for name, size in (("energy", 32), ("stress", 1)):
        one, many = (calculator.get_property(name, atoms) for atoms in (primitive, cubic))
        np.testing.assert_allclose(size * one, many, rtol=1e-12, atol=1e-12)
    assert np.abs(calculator.get_property("forces", primitive)).max() < 1e-12
    assert np.abs(calculator.get_hessian(primitive)).max() < 1e-11


def test_committee_derivatives_are_means():
    members = [MLPotCalculator(make_potential(kind), dtype="float64") for kind in KINDS]
    both = MLPotCalculator([member.members[0] for member in members], dtype="float64")
    atoms = triclinic()
    v = np.random.default_rng(2).normal(size=(4, 3))
    for one in (
        lambda calc: calc.get_hessian(atoms),
        lambda calc: calc.get_hvp(atoms, v),
        lambda calc: calc.get_hvps(atoms, [v, -2 * v]),
        lambda calc: calc.get_property("stress", atoms),
    ):
        expected = np.mean([one(member) for member in members], axis=0)
        np.testing.assert_allclose(one(both), expected, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("v", "message"),
    [(np.zeros((5, 3)), "(4, 3)"), (np.full((4, 3), np.nan), "not finite")],
)
def test_wrong_vectors(calculator, v, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        calculator.get_hvp(triclinic(), v)
    with pytest.raises(ValueError, match=re.escape(message.replace("(4", "(n_vectors, 4"))):
        calculator.get_hvps(triclinic(), v[None])
