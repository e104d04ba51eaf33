"""A potential on a list of pairs as what integrators ask for."""

from __future__ import annotations

import mlx.core as mx

from mlpot import derivatives
from mlpot.graph import Pairs
from mlpot.models import Potential

from .state import Evaluation, Forces
from .system import System


def potential_forces(
    potential: Potential, system: System, pairs: Pairs, skin: float, *, stress: bool
) -> Forces:
    """Energy, forces and stress of a potential, for positions that the pairs still hold for.

    Energies are interaction energies: without the E0 of the atoms, which never change.

    Args:
        potential: the model, in the precision of the system.
        system: what moves.
        pairs: built with the cutoff of the potential and ``skin``.
        skin: Angstrom.
        stress: whether stresses are wanted, and cells change; stresses are zero otherwise.
    """
    n_atoms, n_graphs = system.n_atoms, system.n_graphs

    def forces(positions: mx.array, cells: mx.array) -> Evaluation:
        # Only integrators that ask for stresses change cells.
        graph = pairs.moved(positions, cells if stress else None)
        found = derivatives.energy_forces_stress(potential, graph, stress=stress)
        if found.stress is None:
            stresses, excess = mx.zeros_like(cells), pairs.excess_of_positions(positions, skin)
        else:
            pbc = mx.array(system.pbc.astype("float64"), dtype=system.dtype)
            stresses = found.stress[:n_graphs]
            excess = pairs.excess(positions, cells, pbc, potential.cutoff, skin)
        energies, own = found.interaction_energy[:n_graphs], found.forces[:n_atoms]
        return Evaluation(energies, own, stresses, excess)

    return forces
