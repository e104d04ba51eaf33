"""The log of a run: one row for each structure at each logged step."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from .observables import COLUMNS

_FIRST = ("step", "time_fs", "stage", "replica")
NAMES = (*_FIRST, *(f"{name}_{unit}" for name, unit in COLUMNS.items()), "steps_per_second")


class LogFile:
    """Rows are on their way to the disk at once.

    Args:
        path: made anew, or continued after ``keep`` bytes.
        keep: length of the part of an earlier run that is kept.
    """

    def __init__(self, path: Path, keep: int | None = None) -> None:
        if keep is not None:
            with open(path, "r+b") as file:
                file.truncate(keep)
        self._file = open(path, "a" if keep is not None else "w", encoding="utf-8")  # noqa: SIM115
        if keep is None:
            self._file.write(",".join(NAMES) + "\n")
            self._file.flush()

    def write(
        self, step: int, time: float, stage: str, values: dict[str, np.ndarray], speed: float
    ) -> None:
        """Add a row for each structure; ``values`` are (n_graphs,) by the names of COLUMNS."""
        for replica in range(len(values["kinetic"])):
            numbers = [repr(float(values[name][replica])) for name in COLUMNS]
            row = [str(step), repr(time), stage, str(replica), *numbers, f"{speed:.4g}"]
            self._file.write(",".join(row) + "\n")
        self._file.flush()

    def length(self) -> int:
        """Bytes so far."""
        return self._file.tell()

    def close(self) -> None:
        """Finish the file."""
        self._file.close()


def read_log(path: Path) -> dict[str, np.ndarray]:
    """Columns of a log by name; ``stage`` holds text."""
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {
        name: np.array([row[name] if name == "stage" else float(row[name]) for row in rows])
        for name in NAMES
    }
