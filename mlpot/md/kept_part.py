"""Files of an earlier part of a run, cut back to where its restart file was written."""

from __future__ import annotations

from pathlib import Path

#: What is to be done where it is lost.
FIX = "put back a whole copy of it, or start the run anew with --overwrite"


def cut_bytes(path: Path, n_bytes: int) -> None:
    """Cut a file that only grows.

    Raises:
        ValueError: it is shorter, or not there.
    """
    length = path.stat().st_size if path.is_file() else 0
    if length < n_bytes:
        raise ValueError(
            f"{str(path)!r} has {length} bytes, the restart file counts {n_bytes}: they do not "
            f"belong together; {FIX}"
        )
    with open(path, "r+b") as file:
        file.truncate(n_bytes)
