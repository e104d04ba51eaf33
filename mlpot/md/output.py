"""The folder of a run and what lies in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from mlpot.files import atomic_write, temporary_beside

from . import plots

if TYPE_CHECKING:
    from .record import Record

LOG, SUMMARY = "log.csv", "summary.json"
FINAL, LAST_GOOD = "final.extxyz", "last_good.extxyz"
PICTURES = {
    "energies.png": plots.energies,
    "temperature.png": plots.temperature,
    "rdf.png": plots.rdf,
}
TRAJECTORIES = ("trajectory.traj", "trajectory.extxyz", "trajectory.xyz")
RESULTS = (LOG, SUMMARY, FINAL, LAST_GOOD, *PICTURES, *TRAJECTORIES)


def own_files(folder: Path) -> list[Path]:
    """Paths of all files but trajectories."""
    return [folder.resolve() / name for name in RESULTS if name not in TRAJECTORIES]


def check_folder(folder: Path, overwrite: bool) -> None:
    """Refuse a folder that holds results, or is none.

    Raises:
        ValueError: the folder is a file, or has results and ``overwrite`` is False.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"output {str(folder)!r} is a file: name a folder")
    there = [name for name in RESULTS if (folder / name).exists()]
    if there and not overwrite:
        raise ValueError(
            f"folder {str(folder)!r} holds results already ({', '.join(there)}): "
            "name another folder, or give --overwrite (overwrite=True) to replace them"
        )


def claim_folder(folder: Path) -> None:
    """Make the folder and remove earlier results, and nothing else, from it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in RESULTS:
        (folder / name).unlink(missing_ok=True)


def write_report(folder: Path, record: Record, stopped: str | None) -> None:
    """Write pictures and summary; ``stopped`` is why a run did not reach its end."""
    for name, draw in PICTURES.items():
        with temporary_beside(folder / name) as path:
            draw(record).savefig(path, dpi=150)
        record.files[name] = folder / name
    with atomic_write(folder / SUMMARY, "w") as file:
        json.dump({**record.summary(), "stopped": stopped}, file, indent=2)
        file.write("\n")
    record.files[SUMMARY] = folder / SUMMARY
