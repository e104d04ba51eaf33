"""Files of a result: refuse to replace any before work is spent."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from mlpot.files import atomic_write, temporary_beside


def named_paths(
    folder: str | os.PathLike[str], name: str, endings: Mapping[str, str], pictures: str | None
) -> dict[str, Path]:
    """Paths of the files of a result by their kind.

    Args:
        folder: of all of them.
        name: what their names begin with.
        endings: what the names of the files end in, by kind.
        pictures: what those of a picture as "png" and "svg" end in, without the dot; None for none.
    """
    drawn = {kind: f"{pictures}.{kind}" for kind in ("png", "svg")} if pictures else {}
    return {key: Path(folder) / f"{name}-{end}" for key, end in ({**endings, **drawn}).items()}


def check_outputs(paths: Iterable[Path], overwrite: bool) -> None:
    """Refuse to replace files.

    Raises:
        ValueError: a file exists and ``overwrite`` is False, or the folder is a file.
    """
    for path in paths:
        if path.parent.exists() and not path.parent.is_dir():
            raise ValueError(f"{str(path.parent)!r} is a file: give a folder")
        if path.exists() and not overwrite:
            raise ValueError(f"{str(path)!r} exists already: give another folder or --overwrite")


def write_numbers(
    paths: Mapping[str, Path], data: Mapping[str, Any], draw: Callable[[Path], None]
) -> None:
    """Write the JSON file of a result and its pictures, each complete or not at all.

    Args:
        paths: with "json", and "png" and "svg" where there are pictures.
        data: what the JSON file holds.
        draw: draws the picture into a file, whose name says the format.
    """
    with atomic_write(paths["json"], "w") as file:
        json.dump(data, file, indent=2)
    write_pictures(paths, draw)


def write_pictures(paths: Mapping[str, Path], draw: Callable[[Path], None]) -> None:
    """Write the pictures of a result, those of "png" and "svg" that have a path."""
    for kind in ("png", "svg"):
        if kind in paths:
            with temporary_beside(paths[kind]) as temporary:
                draw(temporary)
