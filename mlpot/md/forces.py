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
        stress: whether stresses are wanted; they are zero otherwise.
    """
    n_atoms, n_graphs = system.n_atoms, system.n_graphs

    def forces(positions: mx.array, cells: mx.array) -> Evaluation:
        graph = pairs.moved(positions, cells)
        found = derivatives.energy_forces_stress(potential, graph, stress=stress)
        stresses = mx.zeros_like(cells) if found.stress is None else found.stress[:n_graphs]
        pbc = mx.array(system.pbc.astype("float64"), dtype=system.dtype)
        return Evaluation(
            found.interaction_energy[:n_graphs],
            found.forces[:n_atoms],
            stresses,
            pairs.excess(positions, cells, pbc, potential.cutoff, skin),
        )

    return forces
