"""Forces of a long calculation, kept on disk so that it can go on after it was stopped."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from ase import Atoms
from ase.calculators.mixing import SumCalculator
from jaxtyping import Float64
from mlx.utils import tree_flatten

from mlpot.calculators import MLPotCalculator
from mlpot.files import atomic_write

#: Seconds between two writings.
INTERVAL = 10.0
#: Positions that differ by less (Angstrom) are the same: relaxations end where they end.
_SAME = 1e-6


class KeptArrays:
    """Arrays of a calculation in a file, for the same calculation started again.

    Args:
        path: the file; None keeps nothing.
        mark: of the calculation, see `mark_of`: a file with another mark is not used.

    Attributes:
        found: what was kept, by name; empty if nothing was.
    """

    def __init__(self, path: Path | None, mark: str) -> None:
        self._path, self._mark = path, mark
        self._written = time.monotonic()
        self.found: dict[str, np.ndarray] = {}
        if path is not None and path.exists():
            self.found = self._read(path)

    def _read(self, path: Path) -> dict[str, np.ndarray]:
        try:
            with np.load(path, allow_pickle=False) as file:
                found = {name: file[name] for name in file.files}
        except Exception:  # of many kinds where a file is damaged or of another program
            return {}  # begin anew
        mark = found.pop("mark", None)
        return found if mark is not None and str(mark) == self._mark else {}

    def keep(self, at_once: bool = False, **arrays: np.ndarray) -> None:
        """Write these in place of what was kept, unless that was a moment ago."""
        if self._path is None:
            return
        if at_once or time.monotonic() - self._written >= INTERVAL:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(self._path) as file:
                everything: dict[str, Any] = {"mark": np.array(self._mark), **arrays}
                np.savez(file, **everything)
            self._written = time.monotonic()

    def remove(self) -> None:
        """The calculation has ended: the file is no longer needed."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)


class KeptForces:
    """The forces of the first displacements of a list, in a file while the rest is computed.

    The file is used again only for the same structure, displacements and potential. Forces are
    added in a ``with`` block, at whose end, or interruption, all are written; `remove` takes the
    file away when what follows from the forces has been written.

    Args:
        path: the file; None keeps nothing.
        calc: whose forces they are.
        supercell: n_atoms, undisplaced.
        displacements: (n_displacements, n_atoms, 3), Angstrom.

    Attributes:
        forces: (n_done, n_atoms, 3) what is known so far, eV/Angstrom.
    """

    def __init__(
        self, path: Path | None, calc: Any, supercell: Atoms, displacements: np.ndarray
    ) -> None:
        self._kept = KeptArrays(path, mark_of(calc, [supercell], displacements))
        none = np.zeros((0, *displacements[0].shape))
        self.forces: Float64[np.ndarray, "n_done n_atoms 3"] = self._kept.found.get("forces", none)

    def add(self, forces: Float64[np.ndarray, "n n_atoms 3"]) -> None:
        """More forces, of the displacements that follow; written from time to time."""
        self.forces = np.concatenate([self.forces, forces])
        self._kept.keep(forces=self.forces)

    def check_first(self, forces: Float64[np.ndarray, "n_atoms 3"]) -> None:
        """Forget what was kept if the first forces are others now.

        Calculators of other packages do not always tell one model from another in their
        parameters, which the mark is made of.
        """
        if len(self.forces):
            allowed = 1e-6 + 1e-3 * np.abs(forces).max()
            if np.abs(self.forces[0] - forces).max() > allowed:
                self.forces = self.forces[:0]

    def __enter__(self) -> KeptForces:
        return self

    def __exit__(self, *_) -> None:
        """Writes what is known, whether all of it or what there was when it was stopped."""
        if len(self.forces):
            self._kept.keep(at_once=True, forces=self.forces)

    def remove(self) -> None:
        """The calculation has ended: the file is no longer needed."""
        self._kept.remove()


def mark_of(calc: Any, structures: Sequence[Atoms], *arrays: np.ndarray) -> str:
    """What tells one calculation from another: potentials, structures, displacements (Angstrom)."""
    mark = hashlib.sha256()
    for atoms in structures:
        mark.update(np.asarray(atoms.numbers, dtype=np.int64).tobytes())
        mark.update(np.asarray(atoms.pbc, dtype=bool).tobytes())
        arrays = (*arrays, atoms.positions, atoms.cell.array)
    for array in arrays:
        mark.update(np.rint(np.asarray(array) / _SAME).astype(np.int64).tobytes())
    _add_calculator(mark, calc)
    return mark.hexdigest()


def _add_calculator(mark: Any, calc: Any) -> None:
    if isinstance(calc, MLPotCalculator):
        for member in calc.members:
            mark.update(repr(getattr(member, "config", None)).encode())
            flat: Any = tree_flatten(member.parameters())
            for name, array in flat:
                mark.update(name.encode())
                mark.update(np.array(array).tobytes())
        return
    mark.update(f"{type(calc)} {getattr(calc, 'parameters', '')}".encode())
    if isinstance(calc, SumCalculator):
        for part in calc.mixer.calcs:
            _add_calculator(mark, part)
