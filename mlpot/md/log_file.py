"""The log of a run: one row for each structure at each logged step."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np

from .kept_part import cut_bytes
from .observables import COLUMNS

_FIRST = ("step", "time_fs", "stage", "replica")
NAMES = (*_FIRST, *(f"{name}_{unit}" for name, unit in COLUMNS.items()), "steps_per_second")


class LogFile:
    """Rows are on their way to the disk at once.

    Args:
        path: made anew, or continued after ``keep`` bytes.
        keep: length of the part of an earlier run that is kept.

    Raises:
        ValueError: the log is shorter than that.
    """

    def __init__(self, path: Path, keep: int | None = None) -> None:
        if keep is not None:
            cut_bytes(path, keep)
        # Without a buffer: rows for which there is no room must not turn up later.
        self._file = open(path, "ab" if keep is not None else "wb", buffering=0)  # noqa: SIM115
        if keep is None:
            self._put(",".join(NAMES) + "\n")

    def _put(self, text: str) -> None:
        data = text.encode()
        while data:
            data = data[self._file.write(data) :]

    def write(
        self, step: int, time: float, stage: str, values: dict[str, np.ndarray], speed: float
    ) -> None:
        """Add a row for each structure; ``values`` are (n_graphs,) by the names of COLUMNS."""
        rows = []
        for replica in range(len(values["kinetic"])):
            numbers = [repr(float(values[name][replica])) for name in COLUMNS]
            row = [str(step), repr(time), stage, str(replica), *numbers, f"{speed:.4g}"]
            rows.append(",".join(row) + "\n")
        self._put("".join(rows))

    def flush(self) -> None:
        """Wait until all rows are on the disk."""
        os.fsync(self._file.fileno())

    def length(self) -> int:
        """Bytes so far."""
        return self._file.tell()

    def close(self) -> None:
        """Finish the file."""
        self._file.close()


def read_log(path: Path) -> dict[str, np.ndarray]:
    """Columns of a log by name; ``stage`` holds text.

    A last line without its end, of a run that was killed or had no room, is left out.
    """
    with open(path, newline="", encoding="utf-8") as file:
        lines = file.read().splitlines(keepends=True)
    rows = list(csv.DictReader(line for line in lines if line.endswith("\n")))
    return {
        name: np.array([row[name] if name == "stage" else float(row[name]) for row in rows])
        for name in NAMES
    }
