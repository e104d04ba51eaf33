"""What a run begins with, and keeps in its folder to be able to go on."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

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
    """

    numbers: np.ndarray
    masses: np.ndarray
    positions: np.ndarray
    velocities: np.ndarray
    cell: np.ndarray
    pbc: np.ndarray

    def save(self, path: Path) -> None:
        """Write all arrays."""
        with atomic_write(path) as file:
            np.savez(file, **asdict(self))

    @classmethod
    def load(cls, path: Path) -> Structure:
        """Read what `save` wrote; ValueError where it cannot."""
        try:
            with np.load(path, allow_pickle=False) as file:
                return cls(**dict(file.items()))
        except (OSError, TypeError, ValueError) as error:
            raise ValueError(f"{str(path)!r} is not the start of a run: {error}") from error
