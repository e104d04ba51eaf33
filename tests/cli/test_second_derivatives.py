"""``mlpot vibrations``, ``elastic`` and ``eos``: files, tables, refusals."""

from __future__ import annotations

import json

import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk
from ase.io import write
from small_potentials import make_crystal, make_potential

import mlpot
from mlpot.calculators import MLPotCalculator
from mlpot.cli import app


def run(capsys, *words) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as caught:
        app.main([str(word) for word in words])
    output = capsys.readouterr()
    code = caught.value.code
    return (code if isinstance(code, int) else 0), output.out, output.err


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.safetensors"
    mlpot.save(path, make_potential(3))
    return path


def test_vibrations(capsys, model, tmp_path):
    molecule = Atoms("OHH", [[0.0, 0, 0], [0.9, 0.1, 0], [-0.2, 0.9, 0.1]])
    write(tmp_path / "water.xyz", molecule)
    words = ["--model", model, "--struct", tmp_path / "water.xyz", "--no-relax"]
    code, printed, err = run(capsys, "vibrations", *words, "--out", tmp_path / "out")
    assert (code, err) == (0, "")
    assert "Zero-point energy" in printed
    data = json.loads((tmp_path / "out/water-vibrations.json").read_text())
    assert len(data["frequencies_THz"]) == 3
    code, _, err = run(capsys, "vibrations", *words, "--out", tmp_path / "out")
    assert code == 1 and "exists already" in err


def test_vibrations_by_displacements(capsys, model, tmp_path):
    write(tmp_path / "water.xyz", Atoms("OHH", [[0.0, 0, 0], [0.9, 0.1, 0], [-0.2, 0.9, 0.1]]))
    words = ["--model", model, "--struct", tmp_path / "water.xyz", "--no-relax", "--no-plot"]
    found = []
    for further in ([], ["--method", "displacements", "--distance", "1e-3"]):
        folder = tmp_path / f"out{len(further)}"
        code, _, err = run(capsys, "vibrations", *words, *further, "--out", folder)
        assert (code, err) == (0, "")
        data = json.loads((folder / "water-vibrations.json").read_text())
        found.append(data["frequencies_THz"])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-2)
    assert found[1] != found[0]


@pytest.mark.parametrize(
    ("verb", "option"),
    [("phonons", "distance"), ("vibrations", "distance"), ("elastic", "strain")],
)
def test_sizes_of_finite_steps(capsys, model, tmp_path, verb, option):
    write(tmp_path / "crystal.extxyz", make_crystal())
    words = ["--model", model, "--struct", tmp_path / "crystal.extxyz", f"--{option}", "0.7"]
    code, _, err = run(capsys, verb, *words)
    assert code == 1 and f"{option} is 0.7" in err


def test_elastic(capsys, model, tmp_path):
    write(tmp_path / "crystal.extxyz", make_crystal())
    words = ["--model", model, "--struct", tmp_path / "crystal.extxyz", "--no-relax"]
    code, printed, err = run(capsys, "elastic", *words, "--out", tmp_path / "out", "--no-plot")
    assert (code, err) == (0, "")
    assert "Elastic constants, clamped ions" in printed
    data = json.loads((tmp_path / "out/crystal-elastic.json").read_text())
    assert np.shape(data["relaxed_ions"]) == (6, 6)
    code, _, err = run(capsys, "elastic", *words, "--method", "guess")
    assert code == 1 and "method is 'guess'" in err


def test_eos(capsys, tmp_path):
    # Random weights: look for a size of the cell at which the energy has a minimum.
    potential = make_potential(3)
    path, cell = tmp_path / "model.safetensors", tmp_path / "carbon.extxyz"
    mlpot.save(path, potential)
    sizes = np.linspace(1.9, 4.5, 53)
    atoms = bulk("C", "sc", a=2.0)
    atoms.calc = MLPotCalculator(path, dtype="float64")
    energies = []
    for size in sizes:
        atoms.set_cell(size * np.eye(3), scale_atoms=True)
        energies.append(atoms.get_potential_energy())
    inner = np.flatnonzero((np.diff(energies)[:-1] < 0) & (np.diff(energies)[1:] > 0))
    assert len(inner), "this potential has no minimum: take another seed"
    atoms.set_cell(sizes[inner[0] + 1] * np.eye(3), scale_atoms=True)
    write(cell, atoms)
    words = ["eos", "--model", path, "--struct", cell, "--out", tmp_path / "out", "--span", "0.08"]
    code, printed, err = run(capsys, *words)
    assert (code, err) == (0, "")
    assert "B0 =" in printed
    assert (tmp_path / "out/carbon-eos.png").is_file()
    code, _, err = run(capsys, *words, "--points", "3", "--overwrite")
    assert code == 1 and "points is 3" in err


def test_saddle(capsys, tmp_path):
    """One step does not reach a saddle point, and the exit code says so."""
    mlpot.save(tmp_path / "model.safetensors", make_potential(3))
    write(tmp_path / "start.xyz", Atoms("OHH", [[0.0, 0, 0], [0.9, 0.1, 0], [-0.2, 0.9, 0.1]]))
    words = ["--model", tmp_path / "model.safetensors", "--struct", tmp_path / "start.xyz"]
    words += ["--out", tmp_path / "out", "--no-connect", "--no-plot"]
    code, printed, err = run(capsys, "saddle", *words, "--steps", 1, "--fmax", 1e-9)
    assert code == 1 and "was not reached" in err
    assert "NO saddle point" in printed
    data = json.loads((tmp_path / "out/start-saddle.json").read_text())
    assert data["converged"] is False and data["steps"] == 1
    code, _, err = run(capsys, "saddle", *words)
    assert code == 1 and "exists already" in err


def test_anharmonic(capsys, tmp_path):
    mlpot.save(tmp_path / "model.safetensors", make_potential(3))
    write(tmp_path / "unit.extxyz", make_crystal())
    words = ["--model", tmp_path / "model.safetensors", "--struct", tmp_path / "unit.extxyz"]
    words += ["--supercell", "1", "1", "1", "--no-relax", "--out", tmp_path / "out"]
    code, printed, err = run(capsys, "anharmonic", *words)
    assert (code, err) == (0, "")
    assert "Third order: largest" in printed
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"unit-fc2.hdf5", "unit-fc3.hdf5", "unit-phono3py.yaml"}
    code, _, err = run(capsys, "anharmonic", *words)
    assert code == 1 and "exists already" in err


@pytest.mark.parametrize(
    ("verb", "struct"),
    [(v, "crystal") for v in ("phonons", "anharmonic", "elastic")] + [("vibrations", "water")],
)
def test_steps_of_the_relaxation(capsys, model, tmp_path, verb, struct):
    write(tmp_path / "crystal.extxyz", make_crystal())
    molecule = Atoms("OHH", [[0.0, 0, 0], [0.9, 0.1, 0], [-0.2, 0.9, 0.1]])
    write(tmp_path / "water.extxyz", molecule)
    words = ["--model", model, "--struct", tmp_path / f"{struct}.extxyz", "--steps", 2]
    code, _, err = run(capsys, verb, *words, "--out", tmp_path / "out")
    assert code == 1 and "after 2 steps" in err and "more steps than 2" in err
    assert not (tmp_path / "out").exists()
