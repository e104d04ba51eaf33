"""What a run begins with, and keeps in its folder to be able to go on."""

from __future__ import annotations

import zlib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from mlpot.files import atomic_write


@dataclass(frozen=True)
class Structure:
    """Atoms on the host.

    Args:
        numbers: (n_atoms,).
        masses: (n_atoms,), u.
        positions: (n_atoms, 3), Angstrom.
        velocities: (n_atoms, 3), Angstrom / (Angstrom sqrt(u/eV)).
        cell: (3, 3), Angstrom.
        pbc: (3,) bool.
        fixed: indices of atoms that never move.
    """

    numbers: np.ndarray
    masses: np.ndarray
    positions: np.ndarray
    velocities: np.ndarray
    cell: np.ndarray
    pbc: np.ndarray
    fixed: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    def save(self, path: Path) -> None:
        """Write all arrays."""
        with atomic_write(path) as file:
            np.savez(file, **asdict(self))

    @classmethod
    def load(cls, path: Path) -> Structure:
        """Read what `save` wrote; ValueError where it cannot."""
        try:
            with open(path, "rb") as file, np.load(file, allow_pickle=False) as found:
                return cls(**dict(found.items()))
        except (OSError, EOFError, TypeError, ValueError, BadZipFile, zlib.error) as error:
            raise ValueError(
                f"{str(path)!r} is not the start of a run ({error}): put back a whole copy of it, "
                "or start the run anew with --overwrite"
            ) from error
