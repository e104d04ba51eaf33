"""Writing files so that a crash never leaves half of one."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any


@contextlib.contextmanager
def temporary_beside(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A name in the folder of ``path`` for another library to write to, moved there at the end.

    The new content takes the place of ``path`` in one step, after it has reached the disk. If the
    body raises, the temporary file is removed and an older ``path`` stays as it was. The suffix
    of ``path`` is kept, as some libraries choose the format by it.

    Args:
        path: file to be made or replaced; its folder must exist.

    Yields:
        The temporary path, which does not exist yet.

    Raises:
        FileNotFoundError: the folder of ``path`` does not exist, or the body wrote nothing.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"folder {str(path.parent)!r} does not exist: make it first")
    temporary = path.parent / f".{path.stem}.{os.getpid()}.{secrets.token_hex(4)}{path.suffix}"
    try:
        yield temporary
        _sync(temporary)
        os.replace(temporary, path)
        _sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str], mode: str = "wb") -> Iterator[IO[Any]]:
    """Open a file for writing that appears under its name complete or not at all.

    Args:
        path: file to be made or replaced; its folder must exist.
        mode: "wb" or "w" (text is written as UTF-8).

    Yields:
        The open file.

    Raises:
        FileNotFoundError: the folder of ``path`` does not exist.
        ValueError: another mode.
    """
    if mode not in ("wb", "w"):
        raise ValueError(f'mode must be "wb" or "w", not {mode!r}: the whole file is replaced')
    encoding = None if "b" in mode else "utf-8"
    with temporary_beside(path) as temporary, open(temporary, mode, encoding=encoding) as file:
        yield file
        file.flush()


def remove_temporaries(path: str | os.PathLike[str]) -> None:
    """Remove what killed processes have left of `temporary_beside` for a file.

    Args:
        path: of the file; no other process may be writing it.
    """
    path = Path(path)
    pattern = re.compile(
        rf"\.{re.escape(path.stem)}\.[0-9]+\.[0-9a-f]{{8}}{re.escape(path.suffix)}"
    )
    for other in path.parent.iterdir():
        if pattern.fullmatch(other.name):
            other.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    """Wait until a file, or the entries of a folder, are on the disk."""
    flags = os.O_RDONLY
    try:
        descriptor = os.open(path, flags)
    except PermissionError:
        return  # folders cannot be opened on some network file systems
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
