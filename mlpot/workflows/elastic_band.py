"""ASE's nudged elastic band, whose images are computed once for each step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from ase import Atoms
from ase.calculators.calculator import Calculator, all_changes
from ase.mep import NEB
from ase.mep.neb import idpp_interpolate, interpolate

from mlpot.calculators import CalculatorBatch, MLPotCalculator


class ElasticBand(NEB):
    """A band between two structures that stay, but for a motion as a whole.

    Optimisers ask for the forces several times a step; free molecules are laid upon each other
    each time, which moves them by rounding: so the forces of a step are remembered.

    Args:
        path: from the first to the last structure; calculators are attached to them.
        calc: ASE calculator.
        spring: constant of the springs, eV/Angstrom^2.
        turning: whether images are laid upon each other: for molecules without constraints.
    """

    def __init__(self, path: Sequence[Atoms], calc: Any, spring: float, turning: bool) -> None:
        super().__init__(
            list(path),
            k=spring,
            method="improvedtangent",
            remove_rotation_and_translation=turning,
            allow_shared_calculator=True,
        )
        for end in (path[0], path[-1]):
            end.calc = _Known(calc.get_potential_energy(end))
        if isinstance(calc, MLPotCalculator):
            shares: Sequence[Calculator] = CalculatorBatch(calc, path[1:-1]).calculators
        else:
            shares = [_Own(calc) for _ in path[1:-1]]
        for image, share in zip(path[1:-1], shares, strict=True):
            image.calc = share
        self._energies = np.zeros(1)
        self._climbed: bool | None = None
        self._at = self._found = np.empty(0)

    def get_forces(self) -> np.ndarray:
        """Forces on the moving images, (n_images n_atoms, 3), eV/Angstrom."""
        if self._climbed != self.climb or not np.array_equal(self._at, self.get_positions()):
            self._found = super().get_forces()
            self._at, self._climbed = self.get_positions(), self.climb
            self._energies = np.asarray(self.energies)
        return self._found.copy()

    @property
    def height(self) -> float:
        """Highest energy above that of the first image at the last forces, eV."""
        return float(self._energies.max() - self._energies[0])


def interpolate_distances(path: Sequence[Atoms], turning: bool) -> None:
    """Put the images between the ends where pair distances change evenly (IDPP).

    Args:
        path: the last structure lies where the atoms are to go: no shortest vectors are taken.
        turning: as in `ElasticBand`.
    """
    interpolate(path, apply_constraint=True)
    band = NEB(
        list(path),
        method="improvedtangent",
        remove_rotation_and_translation=turning,
        allow_shared_calculator=True,
    )
    nothing: Any = None
    idpp_interpolate(band, traj=nothing, log=nothing, mic=bool(path[0].pbc.any()))


class _Known(Calculator):
    """The energy of a structure that moves as a whole at most."""

    implemented_properties = ["energy", "free_energy"]

    def __init__(self, energy: float) -> None:
        super().__init__()
        self._energy = energy

    def calculate(self, atoms=None, properties=("energy",), system_changes=tuple(all_changes)):
        super().calculate(atoms, properties, system_changes)
        self.results = {"energy": self._energy, "free_energy": self._energy}


class _Own(Calculator):
    """Remembers the results of one image of a calculator that all of them share."""

    implemented_properties = ["energy", "free_energy", "forces"]

    def __init__(self, shared: Any) -> None:
        super().__init__()
        self._shared = shared

    def calculate(self, atoms=None, properties=("energy",), system_changes=tuple(all_changes)):
        super().calculate(atoms, properties, system_changes)
        # Forces first: with them nearly all calculators find the energy, too.
        forces = self._shared.get_forces(self.atoms)
        energy = self._shared.get_potential_energy(self.atoms)
        self.results = {"energy": energy, "free_energy": energy, "forces": forces}
