"""Tables of errors by element and for LaTeX; evaluation of committees on the command line."""

from __future__ import annotations

import csv
import json

import mlx.core as mx
import numpy as np
import pytest
from morse_frames import E0, morse_frames

import mlpot
from mlpot import datasets
from mlpot.cli.app import main
from mlpot.datasets import Frame
from mlpot.models import Potential, PotentialConfig, V2106Config
from mlpot.training import ErrorRow, Predictions, predict
from mlpot.training.element_errors import element_rows
from mlpot.training.latex import latex_table


def test_errors_by_element():
    frames = [
        Frame([1, 8], [[0, 0, 0], [0, 0, 1]], forces=[[1, 0, 0], [0, 0, 2]]),
        Frame([1], [[0, 0, 0]]),
        Frame([1], [[0, 0, 0]], forces=[[0, 0, 0]], config_type="x"),
    ]
    said = [np.array([[1, 3, 0], [0, 0, 5.0]]), np.full((1, 3), 7.0), np.zeros((1, 3))]
    rows = element_rows("s", "m", frames, Predictions(np.zeros(3), np.zeros(3), said))
    assert [(row.element, row.n_atoms) for row in rows] == [("H", 2), ("O", 1)]
    assert rows[0].mae == pytest.approx(3 / 6)
    assert rows[0].rmse == pytest.approx(np.sqrt(9 / 6))
    assert rows[1].mae == pytest.approx(1.0)
    assert rows[1].rms == pytest.approx(2 / np.sqrt(3))
    assert element_rows("s", "m", frames[1:2], Predictions(np.zeros(1), np.zeros(1), said)) == []


def test_latex_escapes_and_separates_sets():
    values = {"energy": 1.234, "forces": 45.6}
    rows = [
        ErrorRow(name, "best", "a_b & c", 3, {"energy": 3, "forces": 9}, values, values)
        for name in ("train", "train", "test_1")
    ]
    text = latex_table(rows)
    lines = text.splitlines()
    assert r"\begin{tabular}{lllrrr}" in lines
    assert r"set & model & type & frames & energy [meV/atom] & forces [meV/\AA] \\" in lines
    assert r"train & best & a\_b \& c & 3 & 1.23 / 1.23 & 45.6 / 45.6 \\" in lines
    assert r"test\_1 & best" in lines[-3]
    assert lines.count(r"\midrule") == 2
    assert text.count("{") == text.count("}")


def test_eval_of_a_committee(tmp_path, capsys):
    members = []
    for seed in (1, 2, 3):
        mx.random.seed(seed)
        sizes = V2106Config(channels=4, layers=1, lmax=1)
        config = PotentialConfig(numbers=[2, 10], cutoff=4.0, model=sizes, E0s=E0, scale=1.0)
        members.append(Potential(config))
        mlpot.save(tmp_path / f"m{seed}.safetensors", members[-1])
    datasets.write(tmp_path / "data.h5", morse_frames(5))
    out = tmp_path / "errors"
    with pytest.raises(SystemExit) as ending:
        main(["eval", str(tmp_path / "m*"), str(tmp_path / "data.h5"), "--out", str(out)])
    assert not ending.value.code
    printed = capsys.readouterr().out
    for word in ("committee", "mean-only", "forces by element", "He", "disagreement"):
        assert word in printed
    names = {file.name for file in out.iterdir()}
    assert names == {
        *("errors.csv", "errors.json", "errors.tex", "elements.csv", "disagreement.csv"),
        "parity.png",
    }
    row = json.loads((out / "errors.json").read_text())["rows"][0]
    frames = datasets.read(tmp_path / "data.h5")
    mean = [
        np.mean(forces, axis=0)
        for forces in zip(*(predict(one, frames).forces for one in members), strict=True)
    ]
    error = np.concatenate(
        [(said - frame.forces).ravel() for said, frame in zip(mean, frames, strict=True)]
    )
    assert row["rmse"]["forces"] == pytest.approx(1e3 * np.sqrt((error**2).mean()), rel=1e-5)
    with open(out / "disagreement.csv", newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 5
