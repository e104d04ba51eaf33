"""The lines of the terminal and of metrics.csv: units, and columns under their heads."""

from __future__ import annotations

import csv
import io
import re

from rich.console import Console

from mlpot.training.run_folder import COLUMNS, RunFolder, read_rows
from mlpot.training.view import ProgressView

ROW: dict[str, float | None] = {
    **dict.fromkeys(COLUMNS),
    "epoch": 1,
    "step": 9,
    "lr": 0.01,
    "train_loss": 2.5,
    "valid_loss": 1.25,
    "valid_energy_rmse": 0.0125,
    "valid_forces_rmse": 0.25,
    "seconds": 1.0,
}


def printed(row: dict) -> list[str]:
    text = io.StringIO()
    view = ProgressView(Console(file=text, width=120), n_epochs=1, steps_per_epoch=9)
    view.epoch(row, better=True)
    return text.getvalue().splitlines()


def ends(line: str) -> dict[str, int]:
    """Words and where they end; two words with one space between belong together."""
    return {found.group(): found.end() for found in re.finditer(r"\S+( \S+)*", line)}


def test_cells_stand_under_their_heads_and_units():
    heads, units, cells = map(ends, printed(ROW))
    assert heads["energy"] == units["meV/atom"] == cells["12.5"]
    assert heads["forces"] == units["meV/Å"] == cells["250"]
    assert heads["stress"] == units["meV/Å³"] == cells["-"]
    assert heads["rate"] == cells["0.01"]
    assert "Hessian" not in heads


def test_products_of_the_hessian_where_there_are_such():
    heads, units, cells = map(ends, printed(ROW | {"valid_hvps_rmse": 0.0375}))
    assert heads["Hessian"] == units["meV/Å²"] == cells["37.5"]
    assert heads["rate"] == cells["0.01"]


def test_metrics_say_their_units(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.start()
    folder.add_metrics(ROW)
    folder.add_metrics(ROW | {"epoch": 2})
    with open(folder.metrics, newline="", encoding="utf-8") as file:
        heads = next(csv.reader(file))
    assert heads[:5] == ["epoch", "step", "lr", "train_loss", "valid_loss"]
    for head in (
        *("train_energy_mae [eV/atom]", "valid_forces_rmse [eV/A]"),
        *("valid_stress_mae [eV/A^3]", "valid_hvps_rmse [eV/A^2]"),
    ):
        assert head in heads
    assert folder.read_metrics() == [ROW, ROW | {"epoch": 2}]
    folder.forget_metrics_after(1)
    assert [tuple(row) for row in read_rows(folder.metrics)] == [COLUMNS]
    with open(folder.metrics, newline="", encoding="utf-8") as file:
        assert next(csv.reader(file)) == heads
