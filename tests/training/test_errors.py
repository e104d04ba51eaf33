"""Error tables against numbers worked out by hand."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from mlpot.datasets import Frame
from mlpot.training import Predictions, compare, error_rows, mean_only, write_errors
from mlpot.training.names import set_names
from mlpot.training.tables import format_number, html_table
from mlpot.units import GPA

CELL = 10 * np.eye(3)


def frames() -> list[Frame]:
    pair, single = [[0, 0, 0], [2.0, 0, 0]], [[0, 0, 0]]
    return [
        Frame([1, 1], pair, energy=2.0, forces=[[1, 0, 0], [-1, 0, 0]], config_type="a"),
        Frame([1, 1], pair, energy=4.0, config_type="b"),
        Frame([1], single, CELL, True, energy=1.0, stress=np.eye(3), config_type="b"),
    ]


PREDICTIONS = Predictions(
    reference=np.array([0.5, 0.5, 0.25]),
    energy=np.array([2.2, 3.8, 1.0]),
    forces=[np.zeros((2, 3)), np.ones((2, 3)), np.ones((1, 3))],
    stress=np.stack([np.zeros((3, 3)), np.zeros((3, 3)), 2 * np.eye(3)]),
)


def test_rows():
    rows = {row.config_type: row for row in error_rows("s", "m", frames(), PREDICTIONS)}
    assert set(rows) == {"all", "a", "b"}
    everything = rows["all"]
    assert everything.n_frames == 3
    assert everything.n_labels == {
        "energy": 3,
        "total_energy": 3,
        "forces": 6,
        "stress": 9,
        "stress_GPa": 9,
    }
    assert everything.mae["total_energy"] == pytest.approx(400 / 3)
    assert everything.mae["energy"] == pytest.approx(200 / 3)
    assert everything.rmse["energy"] == pytest.approx(np.sqrt(2 * 100**2 / 3))
    assert everything.mae["forces"] == pytest.approx(2000 / 6)
    assert everything.rmse["forces"] == pytest.approx(np.sqrt(2e6 / 6))
    assert everything.mae["stress"] == pytest.approx(1000 / 3)
    assert everything.mae["stress_GPa"] == pytest.approx(1 / 3 / GPA)
    assert "forces" not in rows["b"].mae
    assert rows["a"].n_frames == 1


def test_mean_only():
    said = mean_only(frames(), PREDICTIONS.reference)
    mean = ((2 - 0.5) / 2 + (4 - 0.5) / 2 + (1 - 0.25)) / 3
    np.testing.assert_allclose(said.energy, [0.5 + 2 * mean, 0.5 + 2 * mean, 0.25 + mean])
    assert all(np.all(forces == 0) for forces in said.forces)
    rows = compare("s", frames(), PREDICTIONS)
    assert [(row.model, row.config_type) for row in rows] == [
        ("model", "all"),
        ("model", "a"),
        ("model", "b"),
        ("mean-only", "all"),
    ]
    assert rows[-1].rmse["forces"] == pytest.approx(1e3 * np.sqrt(2 / 6))


def test_written_table(tmp_path):
    write_errors(tmp_path, compare("s", frames(), PREDICTIONS))
    with open(tmp_path / "errors.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 4
    assert float(rows[0]["energy_mae [meV/atom]"]) == pytest.approx(200 / 3)
    assert rows[2]["forces_rmse [meV/A]"] == ""
    page = html_table(compare("<s>", frames(), PREDICTIONS))
    assert "&lt;s&gt;" in page
    assert "333 / 577" in page


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0.0, "0"),
        (0.01234, "0.012"),
        (1.234, "1.23"),
        (12.34, "12.3"),
        (1e-5, "1e-05"),
    ],
)
def test_numbers(value, text):
    assert format_number(value) == text


def test_names_of_sets_differ():
    assert set_names(["a/x.xyz.gz", "b/x.h5", "c/y.xyz"]) == ["x-1", "x-2", "y"]
