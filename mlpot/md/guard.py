"""Watching for a run that has blown up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mlpot.graph import neighbor_list

if TYPE_CHECKING:
    from .record import Record


class UnstableDynamics(ValueError):  # noqa: N818, says what happened
    """A run was stopped because its energies or atoms ran away.

    Args:
        message: what was seen at which step, and where the last good state is.
        record: of the run until then.
    """

    def __init__(self, message: str, record: Record) -> None:
        super().__init__(message)
        self.record = record


def has_neighbor(positions, cell, pbc, distance: float) -> np.ndarray:
    """Which atoms have another atom, or an image, within a distance: (n_atoms,) bool."""
    receivers = neighbor_list(positions, cell, pbc, distance)[1]
    found = np.zeros(len(positions), dtype=bool)
    found[receivers] = True
    return found


class Guard:
    """Tells what is wrong with a state.

    Args:
        positions: (n_atoms, 3) at the start; only atoms with a neighbour there can be lost.
        cell: (3, 3) lattice vectors as rows.
        pbc: (3,) periodic directions.
        max_temperature: in K.
        lost_distance: in Angstrom.
    """

    def __init__(self, positions, cell, pbc, max_temperature: float, lost_distance: float) -> None:
        self._cell, self._pbc = cell, pbc
        self._max_temperature, self._lost_distance = max_temperature, lost_distance
        self._bound = has_neighbor(positions, cell, pbc, lost_distance)

    def energies(self, potential: float, temperature: float, forces, positions) -> str | None:
        """What is wrong with numbers that are cheap to look at, at every step."""
        if not np.isfinite(potential):
            return f"the potential energy is {potential}"
        if not np.isfinite(forces).all():
            return "forces are not finite"
        if not np.isfinite(positions).all():
            return "positions are not finite"
        if not temperature <= self._max_temperature:
            return (
                f"the temperature is {temperature:.6g} K, above the limit of "
                f"{self._max_temperature:g} K"
            )
        return None

    def lost(self, positions) -> str | None:
        """Which atoms have left all others; needs a neighbour list."""
        if not self._bound.any():
            return None
        near = has_neighbor(positions, self._cell, self._pbc, self._lost_distance)
        gone = np.flatnonzero(self._bound & ~near)
        if len(gone) == 0:
            return None
        names = ", ".join(str(i) for i in gone[:5]) + (", ..." if len(gone) > 5 else "")
        return (
            f"{len(gone)} atom(s) are lost (index {names}): "
            f"no other atom within {self._lost_distance:g} Angstrom"
        )
