"""Extended XYZ, one frame after another: bounded memory, also where the file is compressed.

ASE parses each frame. Its own loop over a file seeks, which makes a compressed file be unpacked
again for every frame.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from ase import Atoms
from ase.io.extxyz import read_xyz
from ase.io.formats import open_with_compression


def read_extxyz(path: Path) -> Iterator[Atoms]:
    """Structures of an ``.xyz`` or ``.extxyz`` file, possibly compressed.

    Args:
        path: the file; ``.gz``, ``.bz2`` and ``.xz`` are unpacked on the way.

    Raises:
        ValueError: damaged content, naming the frame.
    """
    index = 0
    with open_with_compression(str(path), "rt") as file:
        try:
            while (text := _next_frame(file)) is not None:
                yield from read_xyz(io.StringIO(text), 0)
                index += 1
        except GeneratorExit:
            raise
        except Exception as error:  # whatever the parser meets in a damaged file
            raise ValueError(f"{path}:{index}: cannot be read: {error}") from error


def _next_frame(file: IO[str]) -> str | None:
    """Text of the next frame, None at the end of the file."""
    head = file.readline()
    while head and not head.strip():
        head = file.readline()
    if not head:
        return None
    try:
        n_atoms = int(head)
    except ValueError:
        raise ValueError(f"expected a number of atoms, found {head.strip()[:60]!r}") from None
    if n_atoms < 1:
        raise ValueError(f"the frame has {n_atoms} atoms")
    comment = file.readline()
    lines = [line for _ in range(n_atoms) if (line := file.readline()).strip()]
    if len(lines) < n_atoms:
        raise ValueError(f"the frame ends after {len(lines)} of {n_atoms} atoms")
    return "".join([head, comment, *lines])
