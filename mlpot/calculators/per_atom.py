"""What a calculator tells of single atoms beyond their energies."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
from ase import Atoms
from jaxtyping import Float64

from mlpot import derivatives
from mlpot.graph import Graph

from .parts import CalculatorPart


class PerAtom(CalculatorPart):
    """Methods of a calculator with ``members``."""

    def get_virials(self, atoms: Atoms) -> Float64[np.ndarray, "n_atoms 3 3"]:
        """Virial of each atom, the mean over a committee; also without a cell.

        See `mlpot.derivatives.virials`: the sum over atoms is -V times the stress.

        Args:
            atoms: where.

        Returns:
            (n_atoms, 3, 3), eV.

        Raises:
            ValueError: as `calculate`.
        """
        self._check(atoms)
        with self._stream():
            return self._virials(self._graph(atoms))[: len(atoms)]

    def _virials(self, graph: Graph) -> np.ndarray:
        with self._stream():
            found = [derivatives.virials(member, graph) for member in self.members]
            mx.eval(found)
        return np.mean([np.array(one).astype(np.float64) for one in found], axis=0)

    def get_descriptors(self, atoms: Atoms) -> Float64[np.ndarray, "n_atoms n_descriptors"]:
        """Invariant features of each atom, see `mlpot.models.Potential.descriptors`.

        Args:
            atoms: where.

        Returns:
            (n_atoms, n_descriptors), dimensionless.

        Raises:
            ValueError: a committee, whose members share no features; or as `calculate`.
        """
        self._check(atoms)
        if len(self.members) > 1:
            raise ValueError(
                f"a committee of {len(self.members)} models has no common descriptors: give a "
                "calculator of one of them"
            )
        with self._stream():
            found = self.members[0].descriptors(self._graph(atoms))
            mx.eval(found)
        return np.array(found).astype(np.float64)[: len(atoms)]
