"""Data as they come: what ``mlpot train`` makes of each fault, and what it says."""

from __future__ import annotations

import json
import re

import ase.db
import numpy as np
import pytest
from ase.calculators.singlepoint import SinglePointCalculator
from ase.constraints import FixAtoms
from ase.io import write
from morse_frames import isolated_atoms, morse_frames
from training_runs import write_config

from mlpot import datasets
from mlpot.cli import app
from mlpot.training.run_folder import read_rows
from mlpot.units import GPA

KBAR = 0.1 * GPA
E0S = {"He": -3.0, "Ne": -5.0}


def call(capsys, *words) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as caught:
        app.main([str(word) for word in words])
    output = capsys.readouterr()
    assert "Traceback" not in output.err
    return int(caught.value.code or 0), output.out, output.err


def train(capsys, folder, file: str, out: str = "run", **changes) -> tuple[int, str, str]:
    keys = {"train_file": file, "out": str(folder / out), "max_num_epochs": 1, "E0s": E0S}
    return call(capsys, "train", write_config(folder, f"{out}.yaml", **(keys | changes)))


def first_row(folder, out: str = "run") -> dict[str, str]:
    row = read_rows(folder / out / "metrics.csv")[0]
    del row["seconds"]
    return row


def crystals(n: int = 8) -> list:
    return morse_frames(2 * n, crystals=True)[1::2]


def plain_atoms(frame) -> object:
    """The structure in ASE, without labels."""
    return frame.replace(energy=None, forces=None, stress=None).to_atoms()


def test_a_label_that_is_no_number(capsys, tmp_path):
    datasets.write(tmp_path / "data.xyz", morse_frames(4))
    lines = (tmp_path / "data.xyz").read_text().splitlines()
    # A force component of the first atom of the second frame.
    start = int(lines[0]) + 2
    lines[start + 2] = re.sub(r"\S+$", "nan", lines[start + 2])
    (tmp_path / "data.xyz").write_text("\n".join(lines) + "\n")
    code, _, error = train(capsys, tmp_path, "data.xyz")
    assert code == 1
    assert "data.xyz:1: forces is nan at index [0, 2]" in error
    assert "correct the label, or leave it out" in error
    assert not (tmp_path / "run").exists()


def test_unknown_elements(capsys, tmp_path):
    datasets.write(tmp_path / "data.xyz", morse_frames(6))
    text = (tmp_path / "data.xyz").read_text()
    (tmp_path / "odd.xyz").write_text(text.replace("He ", "Xq ", 1))
    code, _, error = train(capsys, tmp_path, "odd.xyz")
    assert code == 1
    assert re.search(r"odd\.xyz:\d: .*unknown element 'Xq'", error)
    (tmp_path / "argon.xyz").write_text(text.replace("He ", "Ar ", 1))
    code, _, error = train(
        capsys, tmp_path, "data.xyz", valid_file="argon.xyz", valid_fraction=None
    )
    assert code == 1
    assert re.search(r"argon\.xyz:\d: Ar is in no training frame \(these have He, Ne\)", error)
    assert not (tmp_path / "run").exists()


def test_frames_without_forces(capsys, tmp_path):
    frames = morse_frames(8)
    whole = [frame.n_atoms for frame in frames]
    for frame in frames[::2]:
        frame.forces = None
    datasets.write(tmp_path / "data.xyz", frames)
    datasets.write(tmp_path / "valid.xyz", morse_frames(2, seed=1))
    keys = {"valid_file": "valid.xyz", "valid_fraction": None}
    code, text, error = train(capsys, tmp_path, "data.xyz", **keys)
    assert code == 0, error
    assert "labels: energy 8, forces 4, stress 0" in text
    rows = json.loads((tmp_path / "run" / "errors.json").read_text())["rows"]
    labels = next(row["n_labels"] for row in rows if row["set"] == "train")
    assert (labels["energy"], labels["forces"]) == (8, 3 * sum(whole[1::2]))
    for frame in frames:
        frame.forces = None
    datasets.write(tmp_path / "bare.xyz", frames)
    code, _, error = train(capsys, tmp_path, "bare.xyz", "bare", **keys)
    assert code == 1
    assert "no training frame has forces" in error
    assert "forces_weight to 0" in error


def test_virials_become_stresses(capsys, tmp_path):
    """A file with virials alone trains exactly as the same with stresses."""
    for name in ("stress", "virials"):
        images = []
        for frame in crystals():
            atoms = plain_atoms(frame)
            atoms.info["REF_energy"] = frame.energy
            if name == "stress":
                atoms.info["REF_stress"] = frame.stress
            else:
                atoms.info["REF_virials"] = -frame.stress * frame.volume
            images.append(atoms)
        write(tmp_path / f"{name}.xyz", images, format="extxyz")
        keys = {"forces_weight": 0, "stress_weight": 100.0}
        code, text, error = train(capsys, tmp_path, f"{name}.xyz", name, **keys)
        assert code == 0, error
        assert "labels: energy 6, forces 0, stress 6" in text
    rows = [first_row(tmp_path, name) for name in ("stress", "virials")]
    assert float(rows[0]["train_stress_rmse"]) > 0
    for key, text in rows[0].items():
        assert (rows[1][key] == "") == (text == ""), key
        if text:
            assert float(rows[1][key]) == pytest.approx(float(text), rel=1e-5), key


def test_stresses_in_kbar(capsys, tmp_path):
    frames = crystals()
    datasets.write(tmp_path / "right.xyz", frames)
    datasets.write(tmp_path / "kbar.xyz", [f.replace(stress=f.stress / KBAR) for f in frames])
    for name, units in (("right", {}), ("kbar", {"stress_unit": "kbar"})):
        code, text, error = train(capsys, tmp_path, f"{name}.xyz", name, units=units)
        assert code == 0, error
        assert "is it in kbar or GPa?" not in text
    right, other = (first_row(tmp_path, name) for name in ("right", "kbar"))
    for key in ("train_stress_rmse", "valid_stress_rmse", "valid_loss"):
        assert float(other[key]) == pytest.approx(float(right[key]), rel=1e-4)
    # Unsaid, it is suspected out loud.
    code, text, error = train(capsys, tmp_path, "kbar.xyz", "suspected")
    assert code == 0, error
    assert re.search(r"suspicious: largest stress is .*is it in kbar or GPa\?.*stress_unit", text)


def test_constraints_do_not_touch_forces(capsys, tmp_path):
    """In files of ASE that keep constraints, with and without them."""
    for name in ("free", "held"):
        with ase.db.connect(tmp_path / f"{name}.db") as base:
            for frame in morse_frames(8):
                atoms = plain_atoms(frame)
                atoms.calc = SinglePointCalculator(atoms, energy=frame.energy, forces=frame.forces)
                if name == "held":
                    atoms.set_constraint(FixAtoms([0, 1]))
                base.write(atoms)
        code, text, error = train(capsys, tmp_path, f"{name}.db", name)
        assert code == 0, error
        assert "exactly zero" not in text
    assert first_row(tmp_path, "held") == first_row(tmp_path, "free")
    # Forces that another program has zeroed are suspected.
    frames = morse_frames(8)
    for frame in frames:
        frame.forces[:2] = 0.0
    datasets.write(tmp_path / "zeroed.xyz", frames)
    code, text, error = train(capsys, tmp_path, "zeroed.xyz", "zeroed")
    assert code == 0, error
    assert "were they removed by constraints?" in text


def test_duplicated_frames(capsys, tmp_path):
    frames = morse_frames(6)
    datasets.write(tmp_path / "data.xyz", [*frames, *frames[:2], *isolated_atoms()])
    datasets.write(tmp_path / "valid.xyz", morse_frames(2, seed=1))
    keys = {"valid_file": "valid.xyz", "valid_fraction": None}
    code, text, error = train(capsys, tmp_path, "data.xyz", **keys)
    assert code == 0, error
    assert "suspicious: 2 frames repeat another one exactly" in text
    assert "8 frames" in text
    assert np.isfinite(float(first_row(tmp_path)["valid_loss"]))
