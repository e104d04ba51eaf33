"""The folder of a run: what lies where, and that nothing is overwritten unasked."""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

import yaml

from mlpot.files import atomic_write

from .checkpoint import previous_path

#: Names that `mlpot.files.temporary_beside` gives.
_LEFTOVER = re.compile(r"\.[\w.-]+\.\d+\.[0-9a-f]{8}\.\w+")

COLUMNS = (
    *("epoch", "step", "lr", "train_loss", "valid_loss"),
    *(
        f"{part}_{term}_{kind}"
        for part in ("train", "valid")
        for term in ("energy", "forces", "stress", "hvps")
        for kind in ("mae", "rmse")
    ),
    *("gradient_norm", "seconds"),
)

#: Units of errors, by what they are errors of.
_UNITS = {"energy": "eV/atom", "forces": "eV/A", "stress": "eV/A^3", "hvps": "eV/A^2"}

# Written by others into the folder of a run; an older run's must not be taken for a new one's.
_OTHERS = ("errors.csv", "errors.json", "committee.json", "disagreement.csv", "wandb-id.txt")


def head_of(column: str) -> str:
    """The head of a column of ``metrics.csv``: its name, with the unit of what is an error."""
    unit = _UNITS.get(column.partition("_")[2].partition("_")[0])
    return f"{column} [{unit}]" if unit else column


def read_rows(path: str | os.PathLike[str]) -> list[dict[str, str]]:
    """The lines of a ``metrics.csv``, without those cut short by a crash.

    Args:
        path: the file; those of older versions have no units.

    Returns:
        Texts by the names of `COLUMNS`.
    """
    with open(path, newline="", encoding="utf-8") as file:
        return [
            {head.partition(" ")[0]: text for head, text in row.items()}
            for row in csv.DictReader(file)
            if None not in {*row, *row.values()}
        ]


class RunFolder:
    """Names of the files of a run, and how they are written.

    Args:
        path: the folder.
        writes: False writes nothing: another process does.
    """

    def __init__(self, path: str | os.PathLike[str], writes: bool = True) -> None:
        self.path, self.writes = Path(path), writes
        self.config = self.path / "config.yaml"
        self.split = self.path / "split.json"
        self.statistics = self.path / "statistics.json"
        self.metrics = self.path / "metrics.csv"
        self.best = self.path / "best.safetensors"
        self.last = self.path / "last.safetensors"
        self.report = self.path / "report.html"
        self.curves = self.path / "curves.png"
        self.parity = self.path / "parity.png"

    def files(self) -> list[Path]:
        """All files that a run writes."""
        own = [v for v in vars(self).values() if isinstance(v, Path) and v != self.path]
        others = [self.path / name for name in _OTHERS]
        return [*own, previous_path(self.last), *others]

    def refuse_existing(self) -> None:
        """Complain if a run lies here already.

        Raises:
            ValueError: there is one, or the path is a file.
        """
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"{self.path} is a file: give another folder with --out")
        if any(file.exists() for file in self.files()):
            go_on = f"go on with it:       mlpot resume {self.path}\n  "
            raise ValueError(
                f"{self.path} holds a run already, nothing was changed\n  "
                f"{go_on if self.last.exists() else ''}"
                "another folder:      --out FOLDER\n  "
                "replace it:          --overwrite"
            )

    def start(self) -> None:
        """Make the folder; files of an older run are removed, other files stay."""
        if not self.writes:
            return
        self.path.mkdir(parents=True, exist_ok=True)
        for file in self.files():
            file.unlink(missing_ok=True)
        with open(self.metrics, "w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerow(map(head_of, COLUMNS))

    def remove_leftovers(self) -> None:
        """Remove what processes were writing when they were killed."""
        if not self.writes:
            return
        for file in self.path.iterdir():
            if _LEFTOVER.fullmatch(file.name):
                file.unlink(missing_ok=True)

    def write_config(self, plain: Mapping) -> None:
        """Write ``config.yaml``, defaults included."""
        if not self.writes:
            return
        with atomic_write(self.config, "w") as file:
            yaml.safe_dump(dict(plain), file, sort_keys=False)

    def write_json(self, path: Path, plain: Mapping) -> None:
        """Write plain values."""
        if not self.writes:
            return
        with atomic_write(path, "w") as file:
            json.dump(dict(plain), file, indent=1)

    def add_metrics(self, row: Mapping[str, float | None]) -> None:
        """Append the line of an epoch to ``metrics.csv``; errors in eV and Angstrom."""
        if not self.writes:
            return
        with open(self.metrics, "a", newline="", encoding="utf-8") as file:
            csv.DictWriter(file, COLUMNS, lineterminator="\n").writerow(dict(row))

    def read_metrics(self) -> list[dict[str, float | None]]:
        """The lines of ``metrics.csv``; empty fields are None."""
        if not self.metrics.exists():
            return []
        return [
            {name: float(text) if text else None for name, text in row.items()}
            for row in read_rows(self.metrics)
        ]

    def forget_metrics_after(self, epoch: int) -> None:
        """Drop lines written after the checkpoint from which a run goes on."""
        if not self.writes:
            return
        rows = read_rows(self.metrics) if self.metrics.exists() else []
        with atomic_write(self.metrics, "w") as file:
            # Older versions had fewer columns, and no units.
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writerow({column: head_of(column) for column in COLUMNS})
            writer.writerows(row for row in rows if int(row["epoch"]) <= epoch)
