"""The ASE calculator."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence

import mlx.core as mx
import numpy as np
from ase import Atoms
from ase.calculators.calculator import (
    Calculator,
    Parameters,
    PropertyNotImplementedError,
    all_changes,
)

from mlpot.derivatives import ReplayedForces, ReplayedProducts
from mlpot.graph import Graph
from mlpot.graph.verlet_list import VerletList
from mlpot.models import Potential

from .evaluation import combine, evaluate, isolated_energies, to_voigt
from .members import DTYPES, Model, find_dtype, find_models, load_member
from .per_atom import PerAtom
from .second_derivatives import SecondDerivatives

_COMMITTEE = ["energy_var", "forces_var", "forces_comm"]


class MLPotCalculator(SecondDerivatives, PerAtom, Calculator):
    """A potential, or the mean of several, as an ASE calculator.

    Results: ``energy`` and ``free_energy`` (eV), ``energies`` (n_atoms,), ``forces`` (n_atoms, 3)
    (eV/Angstrom) and, for three periodic directions, ``stress`` (xx yy zz yz xz xy,
    eV/Angstrom^3, +dE/dstrain / V); ``stresses`` (n_atoms, 6) shares it among the atoms where it
    is asked for. Several models make a committee: results are means, and
    ``energy_var``, ``forces_var`` (n_atoms, 3) are variances over the members, ``forces_comm``
    (n_models, n_atoms, 3) the forces of each. float64 is computed on the CPU. Nothing global
    (default device, precision, seeds) is changed.

    Examples:
        >>> atoms.calc = MLPotCalculator("best.safetensors", dtype="float32", skin=0.5)
        >>> atoms.get_potential_energy()

    Args:
        model: path of a checkpoint, a pattern (``"run*/best.safetensors"``), a `Potential`, or
            several of these. A potential is never changed, and later changes of its weights do not
            reach the calculator: make a new one after training on.
        dtype: "float32" or "float64".
        skin: Angstrom; neighbour lists hold pairs up to the cutoff plus this and are kept while
            atoms move less than half of it. 0 makes a list at every step.
        feature_dtype: "float16" or "bfloat16" for features of 16 bits, for large systems on GPUs:
            see `Potential.set_feature_dtype`; None: as the potential has it, else float32.

    Raises:
        FileNotFoundError: a checkpoint does not exist.
        ValueError: a damaged checkpoint, another dtype or feature_dtype, a negative skin.
    """

    implemented_properties = ["energy", "free_energy", "energies", "forces", "stress", "stresses"]

    def __init__(
        self,
        model: Model | Iterable[Model],
        dtype: str | mx.Dtype = "float32",
        skin: float = 0.5,
        feature_dtype: str | mx.Dtype | None = None,
    ) -> None:
        super().__init__()
        given = find_models(model)
        self.dtype = find_dtype(dtype)
        self._feature_dtype = None if feature_dtype is None else str(feature_dtype)
        self.members: list[Potential] = [
            load_member(one, self.dtype, feature_dtype) for one in given
        ]
        # What is pickled: where there is no path, the potential as it was given.
        self._models = [
            one if isinstance(one, str) else member
            for one, member in zip(given, self.members, strict=True)
        ]
        self._forces = [ReplayedForces(member) for member in self.members]
        self._products = [ReplayedProducts(member) for member in self.members]
        self._pairs = VerletList(max(member.cutoff for member in self.members), skin)
        self._isolated: dict[tuple[int, int], float] = {}
        names = [one if isinstance(one, str) else type(one).__name__ for one in given]
        # What ASE stores in trajectories and databases.
        self.parameters = Parameters(model=", ".join(names), dtype=self.dtype, skin=self.skin)
        if len(self.members) > 1:
            self.implemented_properties = [*self.implemented_properties, *_COMMITTEE]

    @property
    def potential(self) -> Potential:
        """The model, the first one of a committee."""
        return self.members[0]

    @property
    def skin(self) -> float:
        """Angstrom by which neighbour lists reach beyond the cutoff."""
        return self._pairs.skin

    @property
    def cutoff(self) -> float:
        """Largest cutoff of the members, Angstrom."""
        return self._pairs.cutoff

    def astype(self, dtype: str | mx.Dtype) -> MLPotCalculator:
        """A calculator of the same potentials in another precision; this one is not changed."""
        return self._with_members(find_dtype(dtype))

    def calculate(
        self,
        atoms: Atoms | None = None,
        properties: Sequence[str] = ("energy",),
        system_changes: Sequence[str] = tuple(all_changes),
    ) -> None:
        """Compute all results for the atoms; called by ASE when something changed.

        Raises:
            ValueError: no atoms, an unknown element, positions that are not finite, a degenerate
                cell, or two atoms at the same place.
            PropertyNotImplementedError: the stress is wanted without three periodic directions.
        """
        atoms = self.atoms if atoms is None else atoms
        self._check(atoms)
        solid = bool(np.all(atoms.pbc))
        if {"stress", "stresses"} & set(properties) and not solid:
            raise PropertyNotImplementedError(
                f"stress needs three periodic directions, the atoms have pbc={atoms.pbc.tolist()}"
            )
        with self._stream():
            graph = self._graph(atoms)
            values = [evaluate(one, graph, len(atoms), solid) for one in self._forces]
        for index, member in enumerate(values):
            member.energies[:] += self._reference(index, atoms.numbers)
        self.atoms = atoms.copy()
        self.results = combine(values)
        if "stresses" in properties:
            shares = self._virials(graph)[: len(atoms)] / -atoms.cell.volume
            self.results["stresses"] = np.array([to_voigt(share) for share in shares])

    def _check(self, atoms: Atoms | None) -> None:
        if atoms is None:
            raise ValueError("this calculator has no atoms yet: give them, or set atoms.calc")
        if len(atoms) == 0:
            raise ValueError("the structure has no atoms: there is nothing to compute")
        present = np.unique(atoms.numbers)
        for member in self.members:
            member.check_elements(int(z) for z in present)

    def _stream(self) -> contextlib.AbstractContextManager:
        """float64 runs on the CPU, whatever the default device is."""
        return mx.stream(mx.cpu) if self.dtype == "float64" else contextlib.nullcontext()

    def _on_gpu(self) -> bool:
        return self.dtype == "float32" and mx.default_device().type == mx.DeviceType.gpu

    def _graph(self, atoms: Atoms, padded: bool = True) -> Graph:
        # Few sizes of arrays, so that what was recorded for one of them comes again. And copying
        # new edges to a GPU at each step costs more than a few of them too many.
        return self._pairs.graph(
            atoms.numbers,
            atoms.positions,
            atoms.cell.array,
            atoms.pbc,
            dtype=DTYPES[self.dtype],
            trimmed=not (padded and self._on_gpu()),
            padded=padded,
        )

    def _reference(self, index: int, numbers: np.ndarray) -> np.ndarray:
        """E0 of each atom by one member, (n_atoms,), eV."""
        species, inverse = np.unique(numbers, return_inverse=True)
        if any((index, int(z)) not in self._isolated for z in species):
            found = isolated_energies(self.members[index], species)
            self._isolated.update({(index, z): energy for z, energy in found.items()})
        return np.array([self._isolated[index, int(z)] for z in species])[inverse]

    def _with_members(self, dtype: str) -> MLPotCalculator:
        """A new calculator that shares the weights where the precision is the same."""
        twin = MLPotCalculator(self.members, dtype, self.skin)
        twin._models = list(self._models)
        twin._feature_dtype = self._feature_dtype if dtype == "float32" else None
        twin.parameters = Parameters(self.parameters, dtype=dtype)
        return twin

    def __reduce__(self):
        """Pickled by the paths of its models; potentials without a path are pickled themselves."""
        state = {"atoms": self.atoms, "results": self.results}
        given = (list(self._models), self.dtype, self.skin, self._feature_dtype)
        return MLPotCalculator, given, state

    def __deepcopy__(self, memo: dict) -> MLPotCalculator:
        """Shares the weights, which are never changed, but nothing else."""
        twin = self._with_members(self.dtype)
        twin.atoms = None if self.atoms is None else self.atoms.copy()
        twin.results = {
            name: value.copy() if isinstance(value, np.ndarray) else value
            for name, value in self.results.items()
        }
        memo[id(self)] = twin
        return twin
