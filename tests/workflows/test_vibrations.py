"""Vibrations: exact Hessian against displacements and ASE, thermochemistry, files."""

from __future__ import annotations

import json

import ase.io
import numpy as np
import pytest
from ase import Atoms
from ase.build import molecule
from ase.calculators.emt import EMT
from ase.vibrations import Vibrations as AseVibrations
from embedded_atoms import EmbeddedAtoms
from rich.console import Console

from mlpot import workflows
from mlpot.calculators import MLPotCalculator
from mlpot.units import EV_PER_THZ, INVERSE_CM_PER_THZ, SQRT_EIGENVALUE_TO_THZ

QUIET = Console(quiet=True)


@pytest.fixture(scope="module")
def calc() -> MLPotCalculator:
    return MLPotCalculator(EmbeddedAtoms(cutoff=5.0), dtype="float64")


def tetrahedron() -> Atoms:
    return Atoms("Cu4", positions=1.6 * np.array([[0, 0, 0], [1, 1, 0], [1, 0, 1], [0, 1, 1.02]]))


@pytest.fixture(scope="module")
def four(calc):
    return workflows.vibrations(tetrahedron(), calc, fmax=1e-8, console=QUIET)


def test_exact_modes_equal_those_of_displacements(calc, four):
    other = workflows.vibrations(
        four.atoms, calc, relax=False, method="displacements", distance=1e-3, console=QUIET
    )
    assert four.frequencies.shape == (6,) and four.imaginary == 0
    np.testing.assert_allclose(four.frequencies, other.frequencies, rtol=1e-5)
    # A tetrahedron has modes E, T2 and A1: 2 + 3 + 1.
    low, middle, high = np.split(four.frequencies, [2, 5])
    np.testing.assert_allclose(low, low[0], rtol=1e-4)
    np.testing.assert_allclose(middle, middle[0], rtol=1e-4)
    assert high[0] > middle[0] > low[0] > 1


def test_rigid_motions_are_free(four):
    assert four.rigid.shape == (6,)
    assert np.abs(four.rigid).max() < 1e-3


def test_modes_are_normalised_with_the_masses(four):
    weighted = four.modes * np.sqrt(four.atoms.get_masses())[:, None]
    flat = weighted.reshape(6, -1)
    np.testing.assert_allclose(flat @ flat.T, np.eye(6), atol=1e-10)
    momentum = np.einsum("a,mai->mi", four.atoms.get_masses(), four.modes)
    np.testing.assert_allclose(momentum, 0, atol=1e-10)


def test_a_pair_is_one_spring(calc):
    pair = workflows.vibrations(Atoms("Cu2", [[0, 0, 0], [0, 0, 2.2]]), calc, console=QUIET)
    assert pair.geometry == "linear" and pair.frequencies.shape == (1,)
    stiffness = pair.hessian[5, 5]
    reduced = pair.atoms.get_masses()[0] / 2
    expected = np.sqrt(stiffness / reduced) * SQRT_EIGENVALUE_TO_THZ
    assert pair.frequencies[0] == pytest.approx(expected, rel=1e-9)
    assert pair.zero_point_energy == pytest.approx(0.5 * expected * EV_PER_THZ, rel=1e-9)


def test_one_atom_has_no_vibrations(calc):
    alone = workflows.vibrations(Atoms("Cu"), calc, console=QUIET)
    assert alone.geometry == "monatomic" and len(alone.frequencies) == 0
    # Copper gas: 166.4 J/(mol K) in tables, of which R ln 2 = 5.8 are of its unpaired electron.
    entropy = alone.thermochemistry().entropy * 96485.33
    assert entropy == pytest.approx(160.6, abs=0.5)


def test_agrees_with_ase_on_water_in_emt(tmp_path):
    result = workflows.vibrations(
        molecule("H2O"), EMT(), fmax=1e-5, symmetry_number=2, out=tmp_path, console=QUIET
    )
    water = result.atoms.copy()
    water.calc = EMT()
    theirs = AseVibrations(water, name=str(tmp_path / "ase"), delta=0.005)
    theirs.run()
    expected = np.sort(theirs.get_frequencies().real)[-3:]
    np.testing.assert_allclose(result.wavenumbers, expected, rtol=1e-3)
    thermo = result.thermochemistry()
    assert thermo.gibbs == pytest.approx(thermo.enthalpy - 298.15 * thermo.entropy, abs=1e-9)
    data = json.loads((tmp_path / "H2O-vibrations.json").read_text())
    np.testing.assert_allclose(data["wavenumbers_per_cm"], result.frequencies * INVERSE_CM_PER_THZ)
    frames = ase.io.read(tmp_path / "H2O-modes.extxyz", ":")
    assert len(frames) == 3 * 20 and frames[25].info["mode"] == 1
    assert (tmp_path / "H2O-vibrations.png").stat().st_size > 5_000
    with pytest.raises(ValueError, match="exists already"):
        result.write(tmp_path)


def test_saddle_points_have_an_imaginary_mode(calc):
    # Three atoms on a line fall into a triangle.
    line = Atoms("Cu3", [[0, 0, 0], [0, 0, 2.3], [0, 0, 4.6]])
    result = workflows.vibrations(line, calc, console=QUIET)
    assert result.geometry == "linear" and result.imaginary == 2
    assert "2 IMAGINARY" in result.table()
    with pytest.raises(ValueError, match="no minimum"):
        result.thermochemistry()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "guess"}, "method is 'guess'"),
        ({"method": "hessian"}, "EMT gives no second derivatives"),
        ({"distance": 0.0}, "distance is 0.0"),
        ({"temperature": 0.0}, "temperature is 0.0"),
        ({"pressure": -1.0}, "pressure is -1.0"),
        ({"symmetry_number": 0}, "symmetry_number is 0"),
        ({"spin": 0.3}, "spin is 0.3"),
    ],
)
def test_bad_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        workflows.vibrations(Atoms("Cu"), EMT(), console=QUIET, **options)


def test_crystals_are_refused(calc):
    with pytest.raises(ValueError, match="use phonons for a crystal"):
        workflows.vibrations(Atoms("Cu", cell=[3, 3, 3], pbc=True), calc, console=QUIET)
