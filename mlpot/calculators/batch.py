"""Several structures computed together, behind one ASE calculator for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np
from ase import Atoms
from ase.calculators.calculator import Calculator, all_changes

from mlpot import derivatives
from mlpot.graph import VerletList, batch

from .calculator import MLPotCalculator
from .members import DTYPES


class CalculatorBatch:
    """Energies and forces of several structures in one evaluation.

    Optimisers of ASE that move several structures in step, such as its nudged elastic band, ask
    one after the other for their forces. The first to ask after a step has all computed in one
    batch, the others take their share.

    Examples:
        >>> for image, calc in zip(images, CalculatorBatch(calculator, images).calculators):
        ...     image.calc = calc

    Args:
        calc: whose potentials, precision and skin are used; it is not changed.
        structures: the structures that move; they are watched, not copied.
    """

    def __init__(self, calc: MLPotCalculator, structures: Sequence[Atoms]) -> None:
        self._calc = calc
        self.structures = list(structures)
        self.calculators = [_Share(self, index) for index in range(len(self.structures))]
        self._pairs = [VerletList(calc.cutoff, calc.skin) for _ in self.structures]
        self._results: list[tuple[Atoms, dict[str, Any]]] = []
        #: How many evaluations of the whole batch there were.
        self.evaluations = 0

    def results(self, index: int, atoms: Atoms) -> dict[str, Any]:
        """Energy and forces of structure ``index``, which is now ``atoms``."""
        if not self._results or not _same(self._results[index][0], atoms):
            self._compute(index, atoms)
        return self._results[index][1]

    def _compute(self, asked: int, atoms: Atoms) -> None:
        self.evaluations += 1
        present = [s.copy() for s in self.structures]
        present[asked] = atoms.copy()
        totals: list[dict[str, Any]] = []
        calc = self._calc
        for one in present:
            calc._check(one)
        sizes = np.cumsum([len(one) for one in present])[:-1]
        with calc._stream():
            graphs = batch(
                [
                    pairs.graph(
                        one.numbers, one.positions, one.cell.array, one.pbc,
                        dtype=DTYPES[calc.dtype], padded=False,
                    )
                    for pairs, one in zip(self._pairs, present, strict=True)
                ]
            )  # fmt: skip
            forces, energies = [], []
            for member, potential in enumerate(calc.members):
                lazy = derivatives.energy_forces_stress(potential, graphs, stress=False)
                mx.eval(lazy.node_energies, lazy.forces)
                nodes = np.array(lazy.node_energies).astype(np.float64)
                nodes += calc._reference(member, np.concatenate([one.numbers for one in present]))
                energies.append(nodes)
                forces.append(np.array(lazy.forces).astype(np.float64))
        for nodes, part in zip(
            np.split(np.mean(energies, axis=0), sizes),
            np.split(np.mean(forces, axis=0), sizes),
            strict=True,
        ):
            energy = float(nodes.sum())
            totals.append(
                {"energy": energy, "free_energy": energy, "energies": nodes, "forces": part}
            )
        self._results = list(zip(present, totals, strict=True))


class _Share(Calculator):
    """The calculator of one structure of a batch."""

    implemented_properties = ["energy", "free_energy", "energies", "forces"]

    def __init__(self, whole: CalculatorBatch, index: int) -> None:
        super().__init__()
        self._whole, self._index = whole, index

    def calculate(self, atoms=None, properties=("energy",), system_changes=tuple(all_changes)):
        atoms = self.atoms if atoms is None else atoms
        if atoms is None:
            raise ValueError("this calculator has no atoms yet: give them, or set atoms.calc")
        found = self._whole.results(self._index, atoms)
        self.atoms = atoms.copy()
        self.results = {
            key: value.copy() if isinstance(value, np.ndarray) else value
            for key, value in found.items()
        }


def _same(one: Atoms, other: Atoms) -> bool:
    return (
        np.array_equal(one.numbers, other.numbers)
        and np.array_equal(one.positions, other.positions)
        and np.array_equal(one.cell.array, other.cell.array)
        and np.array_equal(one.pbc, other.pbc)
    )
