"""What is looked at along a trajectory, reduced on the device to a few numbers a structure."""

from __future__ import annotations

import mlx.core as mx

from mlpot.graph import Pairs
from mlpot.units import GPA, KB

from .pressure import pressure, volumes
from .state import Integrator, State
from .system import System

#: Names and units of the columns that `observe` gives.
COLUMNS = {
    "potential": "eV",
    "kinetic": "eV",
    "total": "eV",
    "conserved": "eV",
    "temperature": "K",
    "pressure": "GPa",
    "volume": "A3",
    "closest": "A",
}


def observe(
    system: System, integrator: Integrator, state: State, pairs: Pairs
) -> dict[str, mx.array]:
    """Energies, temperature, pressure, volume and the closest pair of each structure.

    Args:
        system: what moves.
        integrator: that moves it.
        state: evaluated by the integrator.
        pairs: for the closest pair, as they were built.

    Returns:
        (n_graphs,) each, see `COLUMNS`. Pressure is zero where stresses are not computed (NaN in
        logs, see `mlpot.md.readings`), the closest pair of structures that share a batch is that
        of the batch.
    """
    kinetic = system.kinetic(state.velocities)
    volume = volumes(state.cells)
    solid = volume > 0
    known = mx.where(solid, volume, mx.ones_like(volume))
    if integrator.stress:
        # Cells of open directions have no volume, and no pressure.
        instant = mx.where(solid, pressure(system, state), mx.zeros_like(known))
    else:
        instant = mx.zeros_like(known)
    vectors = pairs.moved(state.positions, state.cells).edge_vectors()
    squared = (vectors * vectors).sum(axis=-1)
    closest = mx.sqrt(squared.min()) if squared.size else mx.array(1e3, dtype=known.dtype)
    return {
        "potential": state.energies,
        "kinetic": kinetic,
        "total": state.energies + kinetic,
        "conserved": integrator.conserved(state),
        "temperature": 2.0 * kinetic / (system.degrees * KB),
        "pressure": instant / GPA,
        "volume": volume,
        "closest": mx.broadcast_to(closest, kinetic.shape),
    }
