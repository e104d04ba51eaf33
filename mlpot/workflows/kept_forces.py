"""Forces of a long calculation, kept on disk so that it can go on after it was stopped."""

from __future__ import annotations

import hashlib
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64
from mlx.utils import tree_flatten

from mlpot.calculators import MLPotCalculator
from mlpot.files import atomic_write

#: Seconds between two writings.
INTERVAL = 10.0
#: Positions that differ by less (Angstrom) are the same: relaxations end where they end.
_SAME = 1e-6


class KeptForces:
    """The forces of the first displacements of a list, in a file while the rest is computed.

    The file is used again only for the same structure, displacements and potential; it is removed
    at the end.

    Args:
        path: the file; None keeps nothing.
        calc: whose forces they are.
        positions: (n_atoms, 3) of the supercell and its cell below, Angstrom.
        displacements: (n_displacements, n_atoms, 3), Angstrom.

    Attributes:
        forces: (n_done, n_atoms, 3) what is known so far, eV/Angstrom.
    """

    def __init__(
        self, path: Path | None, calc: Any, positions: np.ndarray, displacements: np.ndarray
    ) -> None:
        self._path = path
        self._mark = _digest(calc, positions, displacements)
        self._written = time.monotonic()
        self.forces: Float64[np.ndarray, "n_done n_atoms 3"] = np.zeros(
            (0, *displacements[0].shape)
        )
        if path is not None and path.exists():
            self.forces = self._read(path)

    def _read(self, path: Path) -> np.ndarray:
        try:
            with np.load(path, allow_pickle=False) as found:
                same = str(found["mark"]) == self._mark
                return found["forces"].astype(np.float64) if same else self.forces
        except (OSError, ValueError, KeyError, zipfile.BadZipFile):
            return self.forces  # damaged, or of another program: begin anew

    def add(self, forces: Float64[np.ndarray, "n n_atoms 3"]) -> None:
        """More forces, of the displacements that follow; written from time to time."""
        self.forces = np.concatenate([self.forces, forces])
        if self._path is not None and time.monotonic() - self._written >= INTERVAL:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(self._path) as file:
                np.savez(file, mark=np.array(self._mark), forces=self.forces)
            self._written = time.monotonic()

    def finish(self) -> Float64[np.ndarray, "n_displacements n_atoms 3"]:
        """All forces; the file is no longer needed."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
        return self.forces


def _digest(calc: Any, positions: np.ndarray, displacements: np.ndarray) -> str:
    mark = hashlib.sha256()
    for array in (positions, displacements):
        mark.update(np.rint(np.asarray(array) / _SAME).astype(np.int64).tobytes())
    if isinstance(calc, MLPotCalculator):
        for member in calc.members:
            flat: Any = tree_flatten(member.parameters())
            for name, array in flat:
                mark.update(name.encode())
                mark.update(np.array(array).tobytes())
    else:
        mark.update(f"{type(calc)} {getattr(calc, 'parameters', '')}".encode())
    return mark.hexdigest()
