"""Errors of forces by element."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mlpot.elements import symbol
from mlpot.files import atomic_write

from .errors import Predictions
from .tables import format_number, terminal_table

if TYPE_CHECKING:
    from rich.table import Table

    from mlpot.datasets import Frame


@dataclass(frozen=True)
class ElementRow:
    """Errors of the forces on atoms of one element.

    Args:
        set: name of the set of frames.
        model: name of the model.
        element: symbol.
        n_atoms: atoms with labels.
        mae: mean absolute error of a component, eV/Angstrom.
        rmse: root mean square error of a component, eV/Angstrom.
        rms: root mean square of the labels, eV/Angstrom, to compare with.
    """

    set: str
    model: str
    element: str
    n_atoms: int
    mae: float
    rmse: float
    rms: float


def element_rows(
    set_name: str, model_name: str, frames: Sequence[Frame], said: Predictions
) -> list[ElementRow]:
    """Errors by element, lightest first; elements without a labelled force are left out."""
    known = [i for i, frame in enumerate(frames) if frame.forces is not None]
    if not known:
        return []
    numbers = np.concatenate([frames[i].numbers for i in known])
    labels = [forces for i in known if (forces := frames[i].forces) is not None]
    true = np.concatenate(labels)
    error = np.concatenate([said.forces[i] for i in known]) - true
    rows = []
    for z in np.unique(numbers):
        own, label = error[numbers == z], true[numbers == z]
        rows.append(
            ElementRow(
                set_name,
                model_name,
                symbol(int(z)),
                len(own),
                float(np.abs(own).mean()),
                float(np.sqrt((own**2).mean())),
                float(np.sqrt((label**2).mean())),
            )
        )
    return rows


_HEAD = ("set", "model", "element", "atoms", "MAE\nmeV/Å", "RMSE\nmeV/Å", "RMS label\nmeV/Å")


def element_cells(rows: Sequence[ElementRow]) -> tuple[list[str], list[list[str]]]:
    """Head and lines of a table."""
    lines = [
        [row.set, row.model, row.element, str(row.n_atoms)]
        + [format_number(1e3 * value) for value in (row.mae, row.rmse, row.rms)]
        for row in rows
    ]
    return list(_HEAD), lines


def element_table(rows: Sequence[ElementRow]) -> Table:
    """A table for the terminal."""
    table = terminal_table("forces by element")
    head, lines = element_cells(rows)
    for index, name in enumerate(head):
        table.add_column(name, justify="left" if index < 3 else "right")
    for line in lines:
        table.add_row(*line)
    return table


def write_element_errors(folder: str | os.PathLike[str], rows: Sequence[ElementRow]) -> None:
    """Write ``elements.csv``."""
    with atomic_write(os.path.join(folder, "elements.csv"), "w") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(
            ["set", "model", "element", "atoms"]
            + [f"forces_{name} [eV/A]" for name in ("mae", "rmse", "rms_label")]
        )
        for row in rows:
            writer.writerow(
                [row.set, row.model, row.element, row.n_atoms, row.mae, row.rmse, row.rms]
            )
