"""Potentials of other programs from their files."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from mlpot.models import Potential

from .nequip_npz import read_nequip
from .nequix import read_nequix
from .registry import by_sha256
from .sevennet import read_sevennet

_READERS = {".nqx": read_nequix, ".pth": read_sevennet, ".npz": read_nequip}

#: Endings of files that `import_potential` reads.
FOREIGN_SUFFIXES = tuple(_READERS)


def import_potential(path: str | os.PathLike[str]) -> Potential:
    """A potential of Nequix (.nqx), SevenNet (.pth) or NequIP 0.5 (.npz).

    No code of the file is run, and nothing is allocated beyond what the file holds.

    Args:
        path: the file; its ending tells the program. How to write the .npz file of a NequIP model
            is said in `mlpot.io.nequip_npz`.

    Returns:
        The potential in float32. It gives an isolated atom the energy that the other program
        gives it.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: another ending, a damaged file, or a variant that mlpot does not have.
    """
    path = Path(path)
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise ValueError(
            f"cannot import {str(path)!r}: give a file of Nequix (.nqx), SevenNet (.pth) or NequIP "
            "0.5 (.npz)"
        )
    return reader(path)


def import_metadata(path: str | os.PathLike[str]) -> dict[str, str]:
    """What is known of the origin of a file of another program, for `mlpot.save`."""
    path = Path(path)
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    known = by_sha256(digest)
    if known is not None:
        return known.metadata()
    return {"source": path.name, "source_sha256": digest, "licence": "unknown: ask its authors"}
