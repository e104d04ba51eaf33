"""Volumes and pressures."""

from __future__ import annotations

import mlx.core as mx
from jaxtyping import Float

from .state import State
from .system import System


def volumes(cells: Float[mx.array, "n_graphs 3 3"]) -> Float[mx.array, " n_graphs"]:
    """Volumes of cells, Angstrom^3."""
    a, b, c = cells[:, 0], cells[:, 1], cells[:, 2]
    return mx.abs((a * mx.linalg.cross(b, c)).sum(axis=-1))


def pressure_tensor(system: System, state: State) -> Float[mx.array, "n_graphs 3 3"]:
    """Sum of m v v^T over V, less the stress: eV/Angstrom^3."""
    kinetic = system.kinetic_tensor(state.velocities)
    symmetric = 0.5 * (state.stresses + state.stresses.swapaxes(1, 2))
    return kinetic / volumes(state.cells)[:, None, None] - symmetric


def pressure(system: System, state: State) -> Float[mx.array, " n_graphs"]:
    """A third of the trace of `pressure_tensor`."""
    kinetic = 2.0 * system.kinetic(state.velocities) / volumes(state.cells)
    return (kinetic - mx.diagonal(state.stresses, axis1=1, axis2=2).sum(axis=1)) / 3.0


def check_periodic(system: System) -> None:
    """ValueError where a structure has no volume to change, or atoms that do not scale."""
    if not system.pbc.all():
        raise ValueError(
            "constant pressure needs three periodic directions, the structure has "
            f"pbc={system.pbc[~system.pbc.all(axis=1)][0].tolist()}: choose constant volume"
        )
    if system.fixed.any():
        raise ValueError(
            "constant pressure moves every atom with the cell, but some are fixed: choose "
            "constant volume, or fix none"
        )
