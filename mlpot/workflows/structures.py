"""Structures from and to files that ASE knows."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ase import Atoms

from mlpot.files import temporary_beside


def read_structure(path: str | os.PathLike[str]) -> Atoms:
    """Read the last structure of a file in any format of ASE.

    Args:
        path: the file.

    Returns:
        The structure, without a calculator.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: ASE cannot read it, or there is no atom in it.
    """
    return read_structures(path, every=False)[0]


def read_structures(path: str | os.PathLike[str], every: bool = True) -> list[Atoms]:
    """Read all structures of a file in any format of ASE, or the last alone.

    Args:
        path: the file.
        every: whether all are wanted.

    Returns:
        The structures, without calculators.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: ASE cannot read it, or there is no atom in it.
    """
    import ase.io

    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"structure file {str(path)!r} does not exist")
    try:
        found: Any = ase.io.read(path, ":" if every else "-1:")
    except Exception as error:  # readers of ASE raise whatever their format trips over
        raise ValueError(
            f"ASE cannot read a structure from {str(path)!r} ({type(error).__name__}: {error}); "
            "is its format what the name's ending says?"
        ) from error
    if not found or any(not isinstance(atoms, Atoms) or len(atoms) == 0 for atoms in found):
        raise ValueError(f"{str(path)!r} holds no atoms")
    for atoms in found:
        atoms.calc = None
    return found


def check_writable(path: str | os.PathLike[str], overwrite: bool) -> None:
    """Refuse a name that is taken, or that ASE could not write, before work is spent.

    Raises:
        FileNotFoundError: its folder does not exist.
        ValueError: the file exists and ``overwrite`` is False, or no format goes by this name.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"folder {str(path.parent)!r} does not exist: make it first")
    if path.exists() and not overwrite:
        raise ValueError(f"{str(path)!r} exists already: give another name or --overwrite")
    _format_of(path)


def _format_of(path: Path) -> str:
    from ase.io.formats import UnknownFileTypeError, filetype, ioformats

    try:
        name = filetype(str(path), read=False)
    except UnknownFileTypeError:
        name = ""
    if name not in ioformats or not ioformats[name].can_write:
        raise ValueError(
            f"no format of ASE is written under the name {path.name!r}: end it in .extxyz, .cif, "
            ".vasp or another that ASE knows"
        )
    return name


def write_structure(
    path: str | os.PathLike[str], atoms: Atoms | Sequence[Atoms], overwrite: bool = False
) -> None:
    """Write a structure, or several, complete or not at all.

    Args:
        path: the file; its name says the format.
        atoms: what is written; several need a format that holds several.
        overwrite: whether a file of this name is replaced.

    Raises:
        FileNotFoundError: its folder does not exist.
        ValueError: the file exists and ``overwrite`` is False, or no format goes by this name.
    """
    path = Path(path)
    check_writable(path, overwrite)
    _write(path, atoms, _format_of(path))


def write_frames(path: Path, frames: Sequence[Atoms]) -> None:
    """Write structures as extended XYZ, complete or not at all; an existing file is replaced."""
    _write(path, list(frames), "extxyz")


def _write(path: Path, frames: Any, format_name: str) -> None:
    import ase.io

    with temporary_beside(path) as temporary, warnings.catch_warnings():
        # Slabs of ase.build carry notes that extended XYZ cannot hold; nobody misses them.
        warnings.filterwarnings("ignore", "Skipping unhashable information", UserWarning)
        ase.io.write(temporary, frames, format=format_name)
