"""One labelled structure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mlpot.elements import SYMBOLS, symbol

if TYPE_CHECKING:
    from ase import Atoms

#: ``config_type`` of isolated atoms, compared without case and underscores.
ISOLATED = "isolatedatom"

_VOIGT = ((0, 1, 2, 1, 0, 0), (0, 1, 2, 2, 2, 1))


def full_stress(stress) -> np.ndarray:
    """A stress or virial as a (3, 3) matrix.

    Args:
        stress: (3, 3), (9,) row by row, or (6,) in Voigt order xx yy zz yz xz xy.

    Raises:
        ValueError: another shape.
    """
    values = np.asarray(stress, dtype=np.float64)
    if values.shape == (6,):
        full = np.empty((3, 3))
        full[_VOIGT] = values
        full[_VOIGT[::-1]] = values
        return full
    if values.size == 9 and values.ndim <= 2:
        return values.reshape(3, 3)
    raise ValueError(f"has shape {values.shape}; expected (3, 3), (9,) or (6,)")


def voigt_stress(stress: np.ndarray) -> np.ndarray:
    """A symmetric (..., 3, 3) stress in Voigt order xx yy zz yz xz xy, (..., 6)."""
    return stress[(..., *_VOIGT)]


def name_is_isolated(config_type: str) -> bool:
    """Whether a config type is that of isolated atoms."""
    return config_type.lower().replace("_", "").replace("-", "") == ISOLATED


@dataclass(init=False)
class Frame:
    """A structure with the labels that are known; what is not known is None.

    Args:
        numbers: (n_atoms,) atomic numbers.
        positions: (n_atoms, 3), Angstrom.
        cell: (3, 3), Angstrom, rows are lattice vectors; zeros where there is none.
        pbc: (3,) bool.
        energy: total energy, eV.
        forces: (n_atoms, 3), eV/Angstrom.
        stress: (3, 3), eV/Angstrom^3, +dE/dstrain/V (negative under compression);
            (9,) and Voigt (6,) are converted, the symmetric part is kept.
        config_type: a name for kinds of frames, for tables of errors.
        weight: factor of the whole frame in a loss.
        energy_weight: factor of its energy.
        forces_weight: factor of its forces.
        stress_weight: factor of its stress.
        hvp_vectors: (k, n_atoms, 3) or (n_atoms, 3), directions v without unit.
        hvps: of the same shape, the Hessian of the energy times each of them, eV/Angstrom^2.
        hvps_weight: factor of these.
        source: where it comes from, ``file:index``; used in messages.
        notes: what a reader noticed on the way, for the summary.

    Raises:
        ValueError: no atoms, wrong shapes, or a number that is not finite, naming ``source``.
    """

    numbers: np.ndarray
    positions: np.ndarray
    cell: np.ndarray
    pbc: np.ndarray
    energy: float | None
    forces: np.ndarray | None
    stress: np.ndarray | None
    config_type: str
    weight: float
    energy_weight: float
    forces_weight: float
    stress_weight: float
    hvp_vectors: np.ndarray | None
    hvps: np.ndarray | None
    hvps_weight: float
    source: str
    notes: tuple[str, ...]

    def __init__(
        self,
        numbers: Any,
        positions: Any,
        cell: Any = None,
        pbc: Any = False,
        energy: Any = None,
        forces: Any = None,
        stress: Any = None,
        config_type: str = "Default",
        weight: Any = 1.0,
        energy_weight: Any = 1.0,
        forces_weight: Any = 1.0,
        stress_weight: Any = 1.0,
        source: str = "",
        notes: tuple[str, ...] = (),
        hvp_vectors: Any = None,
        hvps: Any = None,
        hvps_weight: Any = 1.0,
    ):
        self.source, self.notes, self.config_type = source, notes, config_type
        self.numbers = np.asarray(numbers).astype(np.int64)
        if self.numbers.ndim != 1 or len(self.numbers) == 0:
            raise self._error("the frame has no atoms")
        if self.numbers.min() < 1 or self.numbers.max() >= len(SYMBOLS):
            raise self._error(f"unknown atomic number among {np.unique(self.numbers).tolist()}")
        shape = (len(self.numbers), 3)
        self.positions = self._array("positions", positions, shape)
        self.cell = self._array("cell", np.zeros((3, 3)) if cell is None else cell, (3, 3))
        periodic = np.asarray(pbc, dtype=bool)
        if periodic.shape not in ((), (3,)):
            raise self._error(f"pbc must be one bool or three, got {pbc!r}")
        self.pbc = np.broadcast_to(periodic, (3,)).copy()
        self.energy = None if energy is None else float(self._array("energy", energy, ()))
        self.forces = None if forces is None else self._array("forces", forces, shape)
        self.stress = None if stress is None else self._stress(stress)
        self.weight = self._weight("weight", weight)
        self.energy_weight = self._weight("energy_weight", energy_weight)
        self.forces_weight = self._weight("forces_weight", forces_weight)
        self.stress_weight = self._weight("stress_weight", stress_weight)
        self.hvp_vectors, self.hvps = self._products(hvp_vectors, hvps)
        self.hvps_weight = self._weight("hvps_weight", hvps_weight)

    def _stress(self, stress: Any) -> np.ndarray:
        try:
            full = full_stress(stress)
        except ValueError as error:
            raise self._error(f"stress {error}") from None
        full = self._array("stress", full, (3, 3))
        return (full + full.T) / 2

    def _products(self, vectors: Any, products: Any) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Directions and Hessian-vector products, (k, n_atoms, 3) each."""
        if vectors is None and products is None:
            return None, None
        if vectors is None or products is None:
            missing = "hvp_vectors" if vectors is None else "hvps"
            raise self._error(f"{missing} is missing: products need the vectors they belong to")
        n = np.ndim(vectors) - 2
        shape = (*np.shape(vectors)[:n], self.n_atoms, 3)
        if n not in (0, 1) or 0 in shape:
            raise self._error(
                f"hvp_vectors has shape {np.shape(vectors)}; expected (k, {self.n_atoms}, 3)"
            )
        pair = self._array("hvp_vectors", vectors, shape), self._array("hvps", products, shape)
        first, second = (array.reshape(-1, self.n_atoms, 3) for array in pair)
        return first, second

    def _weight(self, name: str, value: Any) -> float:
        number = float(self._array(name, value, ()))
        if number < 0:
            raise self._error(f"{name} is {number}; weights are not negative")
        return number

    def _error(self, message: str) -> ValueError:
        return ValueError(f"{self.source}: {message}" if self.source else message)

    def _array(self, name: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
        try:
            array = np.array(value, dtype=np.float64)
        except (TypeError, ValueError):
            raise self._error(f"{name} is not made of numbers: {value!r}") from None
        if array.shape != shape and not (shape == () and array.shape == (1,)):
            raise self._error(f"{name} has shape {array.shape}; expected {shape}")
        finite = np.isfinite(array)
        if not finite.all():
            where = "" if shape == () else f" at index {np.argwhere(~finite)[0].tolist()}"
            bad = array[~finite].flat[0]
            raise self._error(
                f"{name} is {bad}{where}; correct the label, or leave it out where it is unknown"
            )
        return array.reshape(shape)

    @property
    def n_atoms(self) -> int:
        """Number of atoms."""
        return len(self.numbers)

    @property
    def volume(self) -> float | None:
        """Volume of the cell in Angstrom^3; None without three periodic directions."""
        return float(abs(np.linalg.det(self.cell))) if self.pbc.all() else None

    @property
    def is_isolated_atom(self) -> bool:
        """Whether this is one atom alone, whose energy is its element's E0."""
        return self.n_atoms == 1 and (name_is_isolated(self.config_type) or not self.pbc.any())

    @property
    def formula(self) -> str:
        """Composition, elements by atomic number: ``H6C2O``."""
        numbers, counts = np.unique(self.numbers, return_counts=True)
        return "".join(
            f"{symbol(int(z))}{n if n > 1 else ''}" for z, n in zip(numbers, counts, strict=True)
        )

    def replace(self, **changes) -> Frame:
        """A checked copy with some fields changed."""
        return replace(self, **changes)

    @classmethod
    def from_atoms(cls, atoms: Atoms, **read_options) -> Frame:
        """Take a structure and its labels from ASE.

        Args:
            atoms: structure with labels in ``info``, ``arrays`` or an attached calculator with
                results; nothing is computed and constraints do not touch the forces.
            read_options: keys and units as in `mlpot.datasets.read`.
        """
        from .ase_frames import AtomsReader, Keys, Units

        keys = Keys(**{k: v for k, v in read_options.items() if k.endswith("_key")})
        units = Units(**{k: v for k, v in read_options.items() if k.endswith("_unit")})
        rest = {k: v for k, v in read_options.items() if not k.endswith(("_key", "_unit"))}
        return AtomsReader(keys, units).frame(atoms, **rest)

    def to_atoms(self) -> Atoms:
        """The structure in ASE, labels in a `SinglePointCalculator`, weights in ``info``."""
        from .ase_frames import to_atoms

        return to_atoms(self)
