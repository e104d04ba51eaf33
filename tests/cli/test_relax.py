"""``mlpot relax``: one structure, several in a batch, cells, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from ase import Atoms
from ase.io import read, write
from rich.console import Console
from small_potentials import make_crystal, make_potential

import mlpot
from mlpot.calculators import MLPotCalculator, with_d3
from mlpot.cli import app


def run(capsys, *words) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as caught:
        app.main([str(word) for word in words])
    output = capsys.readouterr()
    code = caught.value.code
    return (code if isinstance(code, int) else 0), output.out, output.err


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A model, a file of one molecule and one of two; the minimum is near by choice of the seed."""
    monkeypatch.chdir(tmp_path)
    mlpot.save(tmp_path / "model.safetensors", make_potential(3))
    molecule = Atoms("OHH", [[0.0, 0, 0], [0.9, 0.1, 0], [-0.2, 0.9, 0.1]])
    other = molecule.copy()
    other.rattle(0.05, seed=1)
    write(tmp_path / "one.xyz", molecule)
    write(tmp_path / "two.extxyz", [molecule, other])
    return tmp_path


def test_one_structure(capsys, files):
    words = ["relax", "--model", "model.safetensors", "--struct", "one.xyz", "--fmax", 0.05]
    code, printed, err = run(capsys, *words)
    assert (code, err) == (0, "")
    assert printed.startswith("relaxed after")
    relaxed = read(files / "one-relaxed.extxyz")
    calc = MLPotCalculator(files / "model.safetensors", dtype="float64")
    assert np.linalg.norm(calc.get_forces(relaxed), axis=1).max() <= 0.05
    code, _, err = run(capsys, *words)
    assert code == 1 and "exists already" in err


def test_the_picture(capsys, files):
    words = ["relax", "--model", "model.safetensors", "--struct", "one.xyz", "--fmax", 0.05]
    code, _, _ = run(capsys, *words, "--out", "bare.extxyz", "--no-plot")
    assert code == 0 and not (files / "bare.png").exists()
    (files / "new.png").write_text("of somebody")
    code, _, err = run(capsys, *words, "--out", "new.extxyz")
    assert code == 1 and "new.png' exists already" in err and not (files / "new.extxyz").exists()
    code, _, _ = run(capsys, *words, "--out", "new.extxyz", "--overwrite")
    assert code == 0 and (files / "new.png").stat().st_size > 10_000


def test_the_history_of_a_relaxation(files):
    from mlpot import workflows

    calc = MLPotCalculator(files / "model.safetensors", dtype="float64")
    start = read(files / "one.xyz")
    _, report = workflows.relax_and_report(start, calc, 0.05, console=Console(quiet=True))
    assert report.history.shape == (report.steps + 1, 2)
    assert report.history[0, 0] == pytest.approx(calc.get_potential_energy(start))
    assert report.history[-1] == pytest.approx([report.energy, report.fmax])
    assert np.all(report.history[:-1, 1] > 0.05)


def test_several_are_one_batch_and_one_file(capsys, files, monkeypatch):
    from mlpot import workflows

    batches = []
    together = workflows.relax_batch
    monkeypatch.setattr(
        workflows, "relax_batch", lambda s, *more: batches.append(len(s)) or together(s, *more)
    )
    words = ["relax", "--model", "model.safetensors", "--struct", "one.xyz", "--struct"]
    words += ["two.extxyz", "--frames", "--fmax", 0.05, "--steps", 2000]
    code, printed, err = run(capsys, *words)
    assert (code, err) == (0, "") and batches == [3]
    assert printed.count("relaxed after") == 3 and "2 H2O: " in printed
    relaxed = read(files / "relaxed.extxyz", ":")
    assert len(relaxed) == 3 and not (files / "relaxed.png").exists()
    calc = MLPotCalculator(files / "model.safetensors", dtype="float64")
    for atoms in relaxed:
        assert np.linalg.norm(calc.get_forces(atoms), axis=1).max() <= 0.05 + 1e-6
        assert atoms.get_potential_energy() == pytest.approx(calc.get_potential_energy(atoms))


def test_what_was_not_reached_is_counted(capsys, files):
    words = ["relax", "--model", "model.safetensors", "--struct", "two.extxyz", "--frames"]
    code, printed, err = run(capsys, *words, "--fmax", 1e-12, "--steps", 1)
    assert code == 1 and "by 2 of 2 structures" in err
    assert "NOT relaxed" in printed and (files / "relaxed.extxyz").exists()


def test_cells_are_relaxed_one_by_one(capsys, files):
    crystal = make_crystal()
    write(files / "crystals.extxyz", [crystal, crystal])
    words = ["relax", "--model", "model.safetensors", "--struct", "crystals.extxyz", "--frames"]
    run(capsys, *words, "--cell", "--steps", 2, "--out", "cells.extxyz")
    for atoms in read(files / "cells.extxyz", ":"):
        assert np.abs(atoms.cell.array - crystal.cell.array).max() > 1e-4


def test_missing_files_and_empty_ones(capsys, files):
    code, _, err = run(capsys, "relax", "--model", "model.safetensors", "--struct", "none.xyz")
    assert code == 1 and "does not exist" in err
    (files / "empty.xyz").write_text("")
    code, _, err = run(capsys, "relax", "--model", "model.safetensors", "--struct", "empty.xyz")
    assert code == 1 and "empty.xyz" in err


def test_with_dispersion(capsys, tmp_path):
    mlpot.save(tmp_path / "model.safetensors", make_potential(3))
    atoms = make_crystal()
    write(tmp_path / "crystal.extxyz", atoms)
    words = ["--model", tmp_path / "model.safetensors", "--struct", tmp_path / "crystal.extxyz"]
    out = tmp_path / "relaxed.extxyz"
    words += ["--fmax", "1e-3", "--d3", "pbe", "--out", out]
    code, _, _ = run(capsys, "relax", *words)
    assert code == 0
    relaxed = read(out)
    relaxed.calc = with_d3(MLPotCalculator(tmp_path / "model.safetensors", dtype="float64"), "pbe")
    assert np.linalg.norm(relaxed.get_forces(), axis=1).max() < 1e-3
