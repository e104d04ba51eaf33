"""Extended XYZ, one frame after another: bounded memory, also where the file is compressed.

ASE parses each frame. Its own loop over a file seeks, which makes a compressed file be unpacked
again for every frame.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from ase import Atoms
from ase.io.extxyz import read_xyz
from ase.io.formats import open_with_compression

# ASE takes nine numbers only for these two keys.
_SIX = re.compile(r"""(?<![\w-])(stress|virial)=(["'])\s*(\S+(?:\s+\S+){5})\s*\2""")


def _nine(match: re.Match[str]) -> str:
    xx, yy, zz, yz, xz, xy = match[3].split()
    return f'{match[1]}="{xx} {xy} {xz} {xy} {yy} {yz} {xz} {yz} {zz}"'


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
            while (text := _next_frame(file.readline)) is not None:
                yield from read_xyz(io.StringIO(text), 0)
                index += 1
        except Exception as error:  # whatever the parser meets in a damaged file
            # ASE looks up symbols of elements, and raises no more than the one it has not found.
            reason = f"unknown element {error}" if isinstance(error, KeyError) else error
            raise ValueError(f"{path}:{index}: cannot be read: {reason}") from error


def _next_frame(readline: Callable[[], str]) -> str | None:
    """Text of the next frame, None at the end of the file."""
    head = readline()
    while head and not head.strip():
        head = readline()
    if not head:
        return None
    try:
        n_atoms = int(head)
    except ValueError:
        raise ValueError(f"expected a number of atoms, found {head.strip()[:60]!r}") from None
    if n_atoms < 1:
        raise ValueError(f"the frame has {n_atoms} atoms")
    comment = _SIX.sub(_nine, readline())
    lines = [line for _ in range(n_atoms) if (line := readline()).strip()]
    if len(lines) < n_atoms:
        raise ValueError(f"the frame ends after {len(lines)} of {n_atoms} atoms")
    return "".join([head, comment, *lines])
