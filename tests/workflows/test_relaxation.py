"""Relaxation: forces fall, the input stays, errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from ase.build import bulk, molecule
from ase.calculators.emt import EMT
from rich.console import Console

from mlpot import workflows
from mlpot.calculators import MLPotCalculator

QUIET = Console(quiet=True)
MODELS = Path(__file__).parents[2] / "models"


def rattled():
    atoms = bulk("Cu", "fcc", a=3.7, cubic=True)
    atoms.rattle(0.05, seed=1)
    return atoms


@pytest.mark.parametrize("cell", [False, True])
def test_forces_fall_and_the_input_stays(cell):
    atoms = rattled()
    before = atoms.copy()
    relaxed = workflows.relax(atoms, EMT(), fmax=1e-3, cell=cell, console=QUIET)
    assert np.linalg.norm(relaxed.get_forces(), axis=1).max() < 1e-3
    np.testing.assert_array_equal(atoms.positions, before.positions)
    np.testing.assert_array_equal(atoms.cell.array, before.cell.array)
    assert atoms.calc is None
    changed = np.abs(relaxed.cell.array - atoms.cell.array).max()
    assert (changed > 0.01) if cell else (changed == 0)
    check = relaxed.copy()
    check.calc = EMT()
    assert check.get_potential_energy() == pytest.approx(relaxed.get_potential_energy())


def test_a_start_near_a_saddle_does_not_stall():
    """Downhill from between two sites, where the optimiser's curvatures run away if kept."""
    calc = MLPotCalculator(MODELS / "molybdenum.safetensors", dtype="float64")
    crystal = bulk("Mo", a=3.16, cubic=True) * 3
    near = int(np.argsort(crystal.get_distances(0, range(len(crystal)), mic=True))[1])
    start = crystal.copy()
    start.positions[near] = 0.5 * (crystal.positions[near] + crystal.positions[0])
    del start[0]
    ends = []
    for sign in (0.08, -0.08):
        moved = start.copy()
        moved.positions[near - 1] += sign * np.array([1.0, 1.0, 1.0])
        found, report = workflows.relax_and_report(moved, calc, 2e-3, console=QUIET)
        assert report.converged and report.steps < 150
        ends.append(found.get_potential_energy())
    assert ends[0] == pytest.approx(ends[1], abs=1e-3)


def test_symmetry_is_kept():
    atoms = bulk("Cu", "fcc", a=3.7)
    relaxed = workflows.relax(atoms, EMT(), fmax=1e-4, cell=True, symmetry=True, console=QUIET)
    np.testing.assert_allclose(relaxed.cell.lengths(), relaxed.cell.lengths()[0], rtol=1e-12)
    assert relaxed.constraints == []


def test_too_few_steps_are_told():
    with pytest.warns(UserWarning, match="NOT relaxed after 1 steps"):
        workflows.relax(rattled(), EMT(), fmax=1e-6, steps=1, console=QUIET)


@pytest.mark.parametrize(
    ("options", "message"), [({"fmax": 0.0}, "fmax is 0.0"), ({"steps": 0}, "steps is 0")]
)
def test_bad_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        workflows.relax(rattled(), EMT(), console=QUIET, **options)


def test_no_cell_to_relax():
    with pytest.raises(ValueError, match="no cell to relax"):
        workflows.relax(molecule("H2O"), EMT(), cell=True, console=QUIET)


def test_no_space_group_to_keep():
    with pytest.raises(ValueError, match="no space group"):
        workflows.relax(molecule("H2O"), EMT(), symmetry=True, console=QUIET)


def test_structure_files(tmp_path):
    atoms = bulk("Cu")
    workflows.write_structure(tmp_path / "POSCAR", atoms)
    assert len(workflows.read_structure(tmp_path / "POSCAR")) == 1
    with pytest.raises(ValueError, match="exists already"):
        workflows.write_structure(tmp_path / "POSCAR", atoms)
    with pytest.raises(ValueError, match="no format of ASE"):
        workflows.write_structure(tmp_path / "copper.nothing", atoms)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        workflows.read_structure(tmp_path / "missing.cif")
    (tmp_path / "bad.cif").write_text("not a crystal")
    with pytest.raises(ValueError, match="cannot read a structure"):
        workflows.read_structure(tmp_path / "bad.cif")
