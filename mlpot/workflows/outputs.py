"""Files of a result: refuse to replace any before work is spent."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


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
