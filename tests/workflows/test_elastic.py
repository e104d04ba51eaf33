"""Elastic constants: exact derivatives against finite strains, moduli, stability, files."""

from __future__ import annotations

import json

import numpy as np
import pytest
from ase.build import bulk
from ase.calculators.emt import EMT
from embedded_atoms import EmbeddedAtoms
from rich.console import Console

from mlpot import workflows
from mlpot.calculators import MLPotCalculator

QUIET = Console(quiet=True)


@pytest.fixture(scope="module")
def calc() -> MLPotCalculator:
    return MLPotCalculator(EmbeddedAtoms(cutoff=5.0), dtype="float64")


@pytest.fixture(scope="module")
def hexagonal(calc):
    """hcp: two atoms that move against each other when it is strained."""
    return workflows.elastic(bulk("Cu", "hcp", a=2.5, c=4.1), calc, fmax=1e-7, console=QUIET)


def test_exact_constants_equal_those_of_finite_strains(calc, hexagonal):
    other = workflows.elastic(
        hexagonal.atoms, calc, relax=False, method="strains", strain=5e-4, fmax=1e-7, console=QUIET
    )
    scale = np.abs(hexagonal.clamped).max()
    np.testing.assert_allclose(hexagonal.clamped, other.clamped, atol=2e-4 * scale)
    np.testing.assert_allclose(hexagonal.relaxed, other.relaxed, atol=2e-4 * scale)
    assert np.abs(hexagonal.clamped - hexagonal.relaxed).max() > 1e-2 * scale
    assert np.abs(hexagonal.stress).max() < 1e-3


def test_hexagonal_symmetry(hexagonal):
    c = hexagonal.relaxed
    assert c[0, 0] == pytest.approx(c[1, 1], rel=1e-6)
    assert c[5, 5] == pytest.approx((c[0, 0] - c[0, 1]) / 2, rel=1e-6)
    assert c[3, 3] == pytest.approx(c[4, 4], rel=1e-6)
    np.testing.assert_allclose(c, c.T, atol=1e-9 * c.max())


def test_bulk_modulus_is_that_of_the_equation_of_state(calc):
    found = workflows.elastic(bulk("Cu", a=3.6), calc, fmax=1e-7, console=QUIET)
    volumes = workflows.eos(found.atoms, calc, span=0.02, points=7, console=QUIET)
    assert found.moduli.bulk_voigt == pytest.approx(volumes.bulk_modulus, rel=2e-3)
    assert found.moduli.bulk_reuss == pytest.approx(found.moduli.bulk_voigt, rel=1e-9)
    assert found.moduli.shear_reuss < found.moduli.shear < found.moduli.shear_voigt


def test_isotropic_tensor_has_its_own_moduli():
    lame, shear = 60.0, 25.0
    c = np.zeros((6, 6))
    c[:3, :3] = lame
    c[np.arange(3), np.arange(3)] += 2 * shear
    c[np.arange(3, 6), np.arange(3, 6)] = shear
    m = workflows.moduli(c)
    for value in (m.bulk_voigt, m.bulk_reuss, m.bulk):
        assert value == pytest.approx(lame + 2 * shear / 3)
    for value in (m.shear_voigt, m.shear_reuss, m.shear):
        assert value == pytest.approx(shear)
    assert m.young == pytest.approx(shear * (3 * lame + 2 * shear) / (lame + shear))
    assert m.poisson == pytest.approx(lame / (2 * (lame + shear)))
    directions = np.random.default_rng(0).normal(size=(5, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    from mlpot.workflows.elastic_result import young_modulus

    np.testing.assert_allclose(young_modulus(c, directions), m.young)


def test_emt_copper_by_strains(tmp_path):
    """ASE's EMT copper: C11 172, C12 116, C44 90 GPa by its authors' fit to experiment."""
    result = workflows.elastic(bulk("Cu", a=3.6), EMT(), out=tmp_path, console=QUIET)
    assert result.method == "strains"
    c = result.relaxed
    assert c[0, 0] == pytest.approx(172, abs=8)
    assert c[0, 1] == pytest.approx(116, abs=8)
    assert c[3, 3] == pytest.approx(90, abs=8)
    data = json.loads((tmp_path / "Cu-elastic.json").read_text())
    np.testing.assert_allclose(data["relaxed_ions"], c)
    assert (tmp_path / "Cu-elastic.png").stat().st_size > 10_000
    assert "Mechanically stable" in result.table()
    with pytest.raises(ValueError, match="exists already"):
        result.write(tmp_path)


def test_instability_is_told(tmp_path):
    # EMT's bcc copper shears into close packing.
    result = workflows.elastic(bulk("Cu", "bcc", a=2.87), EMT(), console=QUIET)
    assert not result.stable and result.stability[0] < 0
    assert "NOT stable" in result.table()
    assert set(result.write(tmp_path)) == {"json"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "guess"}, "method is 'guess'"),
        ({"method": "derivatives"}, "EMT gives no second derivatives"),
        ({"strain": 0.5}, "strain is 0.5"),
    ],
)
def test_bad_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        workflows.elastic(bulk("Cu"), EMT(), console=QUIET, **options)


def test_slabs_are_refused(calc):
    slab = bulk("Cu")
    slab.pbc = [True, True, False]
    with pytest.raises(ValueError, match="periodic in three directions"):
        workflows.elastic(slab, calc, console=QUIET)
    with pytest.raises(ValueError, match="three periodic"):
        calc.get_strain_derivatives(slab)


def test_standard_axes_do_not_depend_on_those_of_the_cell(calc):
    """A primitive cell that lies askew has the constants of the cube, and says both."""
    cube = workflows.elastic(bulk("Cu", a=3.55, cubic=True), calc, console=QUIET)
    askew = bulk("Cu", a=3.55)
    askew.rotate(35.0, (1, 2, 3), rotate_cell=True)
    found = workflows.elastic(askew, calc, console=QUIET)
    assert np.abs(found.relaxed - cube.relaxed).max() > 5
    group, standard = found.in_standard_axes()
    assert group == "Fm-3m"
    np.testing.assert_allclose(standard.relaxed, cube.relaxed, atol=0.05)
    np.testing.assert_allclose(standard.clamped, cube.clamped, atol=0.05)
    assert standard.moduli.shear == pytest.approx(found.moduli.shear, rel=1e-6)
    assert "standard axes" in found.table() and "standard axes" not in cube.table()
    assert "-0.00" not in cube.table()
