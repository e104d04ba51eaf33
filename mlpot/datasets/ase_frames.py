"""Between ASE's Atoms and frames: where labels are kept, and in which units."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

import numpy as np
from ase import Atoms
from ase.calculators.singlepoint import SinglePointCalculator

from mlpot import units

from .frame import Frame, full_stress, voigt_stress

_DEFAULT_KEYS = {
    "energy": ("REF_energy", "energy", "free_energy"),
    "forces": ("REF_forces", "forces"),
    "stress": ("REF_stress", "stress"),
    "virials": ("REF_virials", "REF_virial", "virials", "virial"),
    "hvp_vectors": ("REF_hvp_vectors", "hvp_vectors"),
    "hvps": ("REF_hvps", "hvps"),
}
_WEIGHTS = {
    "weight": ("config_weight",),
    "energy_weight": ("config_energy_weight",),
    "forces_weight": ("config_forces_weight", "config_force_weight"),
    "stress_weight": ("config_stress_weight", "config_virials_weight"),
    "hvps_weight": ("config_hvps_weight",),
}
_SAME = 1e-2  # relative difference above which stress and virials are called contradictory


@dataclass(frozen=True)
class Keys:
    """Names of the labels; None stands for the usual ones, ``REF_energy`` before ``energy``.

    Args:
        energy_key: total energy.
        forces_key: forces.
        stress_key: stress, (3, 3), (9,) or Voigt (6,).
        virials_key: virials, ``-volume * stress``.
        hvp_vectors_key: directions, 3 k numbers an atom.
        hvps_key: the Hessian of the energy times these, 3 k numbers an atom.
        config_type_key: name of the kind of frame.
    """

    energy_key: str | None = None
    forces_key: str | None = None
    stress_key: str | None = None
    virials_key: str | None = None
    hvp_vectors_key: str | None = None
    hvps_key: str | None = None
    config_type_key: str = "config_type"

    def candidates(self, label: str) -> tuple[str, ...]:
        """Names to look for, the first one found counts."""
        given = getattr(self, f"{label}_key")
        return _DEFAULT_KEYS[label] if given is None else (given,)


@dataclass(frozen=True)
class Units:
    """Units of a file, by name (see `mlpot.units`); what is None follows from the others.

    Args:
        energy_unit: eV where None.
        length_unit: Angstrom where None; of positions and cells.
        forces_unit: energy unit / length unit where None, else ``energy/length`` such as
            ``Hartree/Bohr``.
        stress_unit: energy unit / length unit^3 where None; of stresses, not of virials.
    """

    energy_unit: str | None = None
    length_unit: str | None = None
    forces_unit: str | None = None
    stress_unit: str | None = None

    def __post_init__(self) -> None:
        self.factors()  # names are checked before anything is read

    def factors(self) -> dict[str, float]:
        """What energies, lengths, forces, stresses and second derivatives are multiplied with."""
        energy = units.energy_factor(self.energy_unit or "eV")
        length = units.length_factor(self.length_unit or "Angstrom")
        forces = energy / length
        if self.forces_unit is not None:
            top, slash, bottom = self.forces_unit.rpartition("/")
            if not slash:
                raise ValueError(
                    f"forces_unit {self.forces_unit!r} is not energy/length, e.g. Hartree/Bohr"
                )
            forces = units.energy_factor(top) / units.length_factor(bottom)
        stress = energy / length**3
        if self.stress_unit is not None:
            stress = units.stress_factor(self.stress_unit)
        return {
            "energy": energy,
            "length": length,
            "forces": forces,
            "stress": stress,
            "hvps": forces / length,
            "hvp_vectors": 1.0,
        }

    @property
    def given(self) -> bool:
        """Whether any unit was named."""
        return any(getattr(self, field.name) is not None for field in fields(self))


class AtomsReader:
    """Makes frames of Atoms and remembers which keys it met, to explain what is missing.

    Args:
        keys: names of the labels.
        units: units of the labels and positions.
    """

    def __init__(self, keys: Keys, units: Units) -> None:
        self.keys, self.factors = keys, units.factors()
        self.seen: set[str] = set()
        self.used: set[str] = set()

    def frame(self, atoms: Atoms, source: str = "") -> Frame:
        """Convert one structure.

        Args:
            atoms: structure; it is not changed and nothing is computed.
            source: ``file:index`` for messages.

        Raises:
            ValueError: see `Frame`.
        """
        places = _places(atoms)
        for place in places:
            self.seen.update(str(key) for key in place)
        notes: list[str] = []
        energy = self._label(places, "energy", source)
        forces = self._label(places, "forces", source)
        stress = self._stress(atoms, places, notes, source)
        vectors, products = (
            _per_atom(self._label(places, name, source), len(atoms))
            for name in ("hvp_vectors", "hvps")
        )
        weights = {name: _first(places, keys, 1.0)[1] for name, keys in _WEIGHTS.items()}
        config_type = _first(places, (self.keys.config_type_key,), "Default")[1]
        return Frame(
            numbers=atoms.numbers,
            positions=atoms.positions * self.factors["length"],
            cell=np.array(atoms.cell) * self.factors["length"],
            pbc=atoms.pbc,
            energy=energy,  # type: ignore[arg-type]
            forces=forces,
            stress=stress,
            config_type=str(config_type),
            source=source,
            notes=tuple(notes),
            hvp_vectors=vectors,
            hvps=products,
            **weights,
        )

    def _label(self, places: list[dict], label: str, source: str):
        key, value = _first(places, self.keys.candidates(label), None)
        if key is None:
            return None
        self.used.add(key)
        try:
            number = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"{source}: {key} is not made of numbers: {value!r}") from None
        return number * self.factors["energy" if label == "virials" else label]

    def _stress(self, atoms: Atoms, places: list[dict], notes: list[str], source: str):
        found = {}
        for label in ("stress", "virials"):
            value = self._label(places, label, source)
            if value is None:
                continue
            try:
                found[label] = full_stress(value)
            except ValueError as error:
                raise ValueError(f"{source}: {label} {error}") from None
        if not found:
            return None
        volume = abs(np.linalg.det(np.array(atoms.cell))) * self.factors["length"] ** 3
        if not atoms.pbc.all() or volume == 0:
            notes.append("stress without three periodic directions: not used")
            return None
        if "virials" in found:
            found["virials"] = -found["virials"] / volume
        for label, value in found.items():
            scale = np.abs(value).max()
            if np.abs(value - value.T).max() > _SAME * scale:
                notes.append(f"{label} not symmetric: its symmetric part is used")
            found[label] = (value + value.T) / 2
        if len(found) == 2:
            difference = np.abs(found["stress"] - found["virials"]).max()
            if difference > _SAME * np.abs(found["stress"]).max():
                notes.append("stress and virials contradict each other: the stress is used")
        return found.get("stress", found.get("virials"))

    def missing(self, label: str) -> str | None:
        """Name of a key that was asked for and never found."""
        key = getattr(self.keys, f"{label}_key")
        return key if key is not None and key not in self.used else None


def _per_atom(rows, n_atoms: int):
    """(n_atoms, 3 k) numbers of a file as (k, n_atoms, 3); other shapes stay for `Frame`."""
    if rows is None or rows.ndim != 2 or len(rows) != n_atoms or rows.shape[1] % 3:
        return rows
    return rows.reshape(n_atoms, -1, 3).swapaxes(0, 1)


def _places(atoms: Atoms) -> list[dict]:
    """Where labels can be, in the order in which they are looked for."""
    info = atoms.info
    places = [info, atoms.arrays]
    if atoms.calc is not None:
        places.append(atoms.calc.results)  # not get_forces(): constraints would zero labels
    places += [info[key] for key in ("key_value_pairs", "data") if isinstance(info.get(key), dict)]
    return places


def _first(places: list[dict], keys: Iterable[str], default):
    for key in keys:
        for place in places:
            if place.get(key) is not None:
                return key, place[key]
    return None, default


def to_atoms(frame: Frame) -> Atoms:
    """See `Frame.to_atoms`."""
    atoms = Atoms(numbers=frame.numbers, positions=frame.positions, cell=frame.cell, pbc=frame.pbc)
    results: dict = {}
    if frame.energy is not None:
        results["energy"] = frame.energy
    if frame.forces is not None:
        results["forces"] = frame.forces.copy()
    if frame.stress is not None:
        results["stress"] = voigt_stress(frame.stress)
    if results:
        atoms.calc = SinglePointCalculator(atoms, **results)
    for name in ("hvp_vectors", "hvps"):
        rows = getattr(frame, name)
        if rows is not None:
            flat = rows.swapaxes(0, 1).reshape(frame.n_atoms, -1)
            atoms.set_array(_DEFAULT_KEYS[name][0], flat)
    if frame.config_type != "Default":
        atoms.info["config_type"] = frame.config_type
    for name, keys in _WEIGHTS.items():
        if getattr(frame, name) != 1.0:
            atoms.info[keys[0]] = getattr(frame, name)
    return atoms
