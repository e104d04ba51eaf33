"""``mlpot singlepoint`` and ``mlpot info``: what they print, write and refuse."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from ase.build import molecule
from ase.io import read, write
from small_potentials import make_crystal, make_potential

import mlpot
from mlpot.calculators import MLPotCalculator, with_d3
from mlpot.cli import app
from mlpot.models import Potential, PotentialConfig, V2106Config


def run(capsys, *words) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as caught:
        app.main([str(word) for word in words])
    output = capsys.readouterr()
    code = caught.value.code
    return (code if isinstance(code, int) else 0), output.out, output.err


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.safetensors"
    mlpot.save(path, make_potential(), {"trained_on": "five crystals"})
    return path


@pytest.fixture
def structure(tmp_path):
    path = tmp_path / "crystal.extxyz"
    write(path, make_crystal())
    return path


def test_numbers_are_those_of_the_calculator(capsys, model, structure, tmp_path):
    out = tmp_path / "done.extxyz"
    words = ["singlepoint", "--model", model, "--struct", structure, "--out", out]
    code, printed, err = run(capsys, *words)
    assert (code, err) == (0, "")
    atoms = read(structure)
    atoms.calc = MLPotCalculator(model, dtype="float64")
    energy, forces = atoms.get_potential_energy(), atoms.get_forces()
    assert f"{energy:.8f}" in printed
    assert f"{np.sqrt(np.mean(forces**2)):.8f}" in printed
    assert f"{np.linalg.norm(forces, axis=1).max():.8f}" in printed
    assert f"{atoms.get_stress()[3]:.8f}" in printed
    kept = read(out)
    assert kept.get_potential_energy() == pytest.approx(energy, abs=1e-6)
    np.testing.assert_allclose(kept.get_forces(), forces, atol=1e-6)
    np.testing.assert_allclose(kept.get_stress(), atoms.get_stress(), atol=1e-6)
    before = out.read_bytes()
    code, _, err = run(capsys, *words, "--dtype", "float32")
    assert code == 1
    assert "--overwrite" in err
    assert out.read_bytes() == before
    assert run(capsys, *words, "--dtype", "float32", "--overwrite")[0] == 0
    assert out.read_bytes() != before


def test_molecules_have_no_stress(capsys, model, tmp_path):
    atoms = make_crystal()
    atoms.pbc = False
    write(tmp_path / "a.xyz", atoms)
    code, printed, _ = run(capsys, "singlepoint", "--model", model, "--struct", tmp_path / "a.xyz")
    assert code == 0
    assert "three periodic directions" in printed


def test_errors_are_told_and_counted(capsys, model, structure, tmp_path):
    absent = tmp_path / "absent.safetensors"
    damaged = tmp_path / "damaged.safetensors"
    damaged.write_bytes(model.read_bytes()[:-50])
    copper = make_crystal()
    copper.numbers[1] = 29
    write(tmp_path / "copper.extxyz", copper)
    for one, other, message in (
        (absent, structure, "absent.safetensors"),
        (damaged, structure, "damaged"),
        (model, tmp_path / "copper.extxyz", "does not know Cu"),
        (model, tmp_path / "nothing.xyz", "nothing.xyz"),
    ):
        code, printed, err = run(capsys, "singlepoint", "--model", one, "--struct", other)
        assert (code, printed) == (1, "")
        assert message in err
        assert "Traceback" not in err


def test_info(capsys, model, tmp_path):
    code, printed, err = run(capsys, "info", model)
    assert (code, err) == (0, "")
    arrays, _ = mlpot.io.read_file(model)
    for text in (
        "H, C, O",
        "3 Angstrom",
        f"{sum(a.size for a in arrays.values())} in",
        "-1029.5",
        "channels: 4",
        "trained_on: five crystals",
    ):
        assert text in printed
    for name, content in (("absent", None), ("damaged", model.read_bytes()[:-50])):
        path = tmp_path / f"{name}.safetensors"
        if content is not None:
            path.write_bytes(content)
        code, printed, err = run(capsys, "info", path)
        assert (code, printed) == (1, "")
        assert name in err


def test_info_of_many_elements(capsys, tmp_path):
    """What matters comes first, and all E0s take few lines at the end."""
    backbone = V2106Config(channels=4, layers=1, lmax=1, radial_neurons=[4])
    E0s = {z: -1.5 * z for z in range(1, 90) if z != 29}
    config = PotentialConfig(numbers=list(range(1, 90)), cutoff=3.0, model=backbone, E0s=E0s)
    told = {"train_file": "all.h5", "valid_loss": "0.0123456789", "epoch": "17"}
    mlpot.save(tmp_path / "all.safetensors", Potential(config), told)
    code, printed, _ = run(capsys, "info", tmp_path / "all.safetensors")
    lines = printed.splitlines()
    assert code == 0
    for text in (
        "architecture    v2106: 1 layers of 4 channels, lmax 1; ZBL repulsion",
        "cutoff          3 Angstrom",
        "trained on      all.h5",
        "accuracy        validation loss 0.01235 in epoch 17; errors by: mlpot eval",
    ):
        assert text in lines[:8]
    assert "elements        89: H, He" in printed
    energies = lines[lines.index("E0s (eV)") + 1 :]
    assert len(energies) == 23  # four a line, and nothing behind them
    words = " ".join(energies).split()
    assert words[:4] == ["H", "-1.50000000", "He", "-3.00000000"]
    assert words[words.index("Cu") + 1] == "0" and words[-2:] == ["Ac", "-133.50000000"]


def test_info_of_data(capsys, tmp_path):
    path = tmp_path / "water.xyz"
    atoms = molecule("H2O")
    atoms.info["energy"] = -1.0
    write(path, atoms, format="extxyz")
    code, printed, err = run(capsys, "info", path)
    assert (code, err) == (0, "")
    assert "1 frames, 3 atoms" in printed
    assert "labels: energy 1, forces 0" in printed
    write(tmp_path / "more.xyz", [atoms, atoms], format="extxyz")
    code, printed, err = run(capsys, "info", tmp_path / "*.xyz", "--energy-unit", "Hartree")
    assert (code, err) == (0, "")
    assert "3 frames, 9 atoms" in printed
    assert "energy: -9.0705" in printed  # a third of -27.2114 eV an atom
    code, printed, err = run(capsys, "info", tmp_path / "absent.xyz")
    assert (code, printed) == (1, "")
    assert "there is no file" in err and "absent.xyz" in err


def test_dispersion_is_added(capsys, model, structure):
    words = ["singlepoint", "--model", model, "--struct", structure]
    code, printed, err = run(capsys, *words, "--d3", "pbe")
    assert (code, err) == (0, "")
    atoms = read(structure)
    atoms.calc = with_d3(MLPotCalculator(model, dtype="float64"), "pbe")
    energy = atoms.get_potential_energy()
    assert f"{energy:.8f}" in printed
    assert f"{atoms.get_stress()[3]:.8f}" in printed
    atoms.calc = MLPotCalculator(model, dtype="float64")
    share = energy - atoms.get_potential_energy()
    assert share < -1e-3
    (line,) = (line for line in printed.splitlines() if "D3(pbe)" in line)
    assert float(line.split()[-2]) == pytest.approx(share, abs=1e-7)
    code, _, err = run(capsys, *words, "--d3", "nothing")
    assert code == 1 and "no parameters of 'nothing'" in err


def test_dispersion_that_is_not_installed(capsys, model, structure, monkeypatch):
    monkeypatch.setitem(sys.modules, "dftd3.ase", None)
    words = ["--model", model, "--struct", structure, "--d3", "pbe"]
    code, _, err = run(capsys, "singlepoint", *words)
    assert code == 1 and "pip install 'mlpot[d3]'" in err
    code, _, err = run(capsys, "phonons", *words)
    assert code == 1 and "with --d3 give --method displacements" in err
