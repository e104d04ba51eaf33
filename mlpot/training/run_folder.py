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

# Written by others into the folder of a run; an older run's must not be taken for a new one's.
_OTHERS = ("errors.csv", "errors.json", "committee.json", "disagreement.csv", "wandb-id.txt")


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
            csv.writer(file, lineterminator="\n").writerow(COLUMNS)

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
        """Append the line of an epoch to ``metrics.csv``."""
        if not self.writes:
            return
        with open(self.metrics, "a", newline="", encoding="utf-8") as file:
            csv.DictWriter(file, COLUMNS, lineterminator="\n").writerow(dict(row))

    def read_metrics(self) -> list[dict[str, float | None]]:
        """The lines of ``metrics.csv``; empty fields are None."""
        if not self.metrics.exists():
            return []
        with open(self.metrics, newline="", encoding="utf-8") as file:
            return [
                {name: float(text) if text else None for name, text in row.items()}
                for row in csv.DictReader(file)
                if None not in row.values()  # a line cut short by a crash
            ]

    def forget_metrics_after(self, epoch: int) -> None:
        """Drop lines written after the checkpoint from which a run goes on."""
        if not self.writes:
            return
        rows: list[dict[str, str]] = []
        if self.metrics.exists():
            with open(self.metrics, newline="", encoding="utf-8") as file:
                # Lines that a crash cut short are dropped, too.
                rows = [row for row in csv.DictReader(file) if None not in {*row, *row.values()}]
        with atomic_write(self.metrics, "w") as file:
            # Older versions had fewer columns.
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(row for row in rows if int(row["epoch"]) <= epoch)
