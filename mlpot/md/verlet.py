"""Velocity Verlet: constant energy, and the moves that other integrators are made of."""

from __future__ import annotations

from dataclasses import replace

import mlx.core as mx

from mlpot.units import FS

from .atom_kernels import atom_kernels
from .state import Forces, Integrator, State
from .system import System
from .verlet_kernels import VerletKernels


def kick(system: System, state: State, dt: float) -> State:
    """v += dt F / m; fixed atoms and held centres of mass stay."""
    velocities = state.velocities + system.mobility(dt) * state.forces
    return replace(state, velocities=system.constrain(velocities))


def drift(state: State, dt: float) -> State:
    """r += dt v."""
    return replace(state, positions=state.positions + dt * state.velocities)


def check_timestep(timestep: float) -> float:
    """Femtoseconds in units of the integrators; ValueError unless positive."""
    if not 0 < timestep < float("inf"):
        raise ValueError(f"timestep is {timestep!r}: it must be a positive number of fs")
    return timestep * FS


def check_positive(name: str, value: float, unit: str) -> float:
    """The value; ValueError unless it is positive and finite."""
    if not 0 < value < float("inf"):
        raise ValueError(f"{name} is {value!r}: it must be a positive number of {unit}")
    return float(value)


def total_energy(system: System, state: State) -> mx.array:
    """Potential and kinetic energy, (n_graphs,), eV."""
    return state.energies + system.kinetic(state.velocities)


def nve(system: System, timestep: float) -> Integrator:
    """Constant energy.

        v += dt/2 F/m;   r += dt v;   F = F(r);   v += dt/2 F/m

    (Swope, Andersen, Berens and Wilson, 1982). The total energy fluctuates with dt^2 and does
    not drift.

    Args:
        system: what moves.
        timestep: fs.

    Raises:
        ValueError: a time step that is not positive.
    """
    dt = check_timestep(timestep)
    fused = VerletKernels(system, dt)

    def init(state: State, forces: Forces) -> State:
        return state.evaluated(forces)

    def step(state: State, forces: Forces) -> State:
        # Where no centre of mass is held there is not much to save.
        atoms = atom_kernels(system) if system.without_com.any() else None
        if atoms is not None:
            return fused.second(atoms, fused.first(atoms, state).evaluated(forces))
        state = drift(kick(system, state, dt / 2), dt)
        return kick(system, state.evaluated(forces), dt / 2)

    return Integrator(init, step, lambda state: total_energy(system, state))
