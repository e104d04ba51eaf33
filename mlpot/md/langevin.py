"""Langevin dynamics: constant temperature by friction and noise on every atom."""

from __future__ import annotations

import math
from dataclasses import replace

import mlx.core as mx

from mlpot.units import PS

from .atom_kernels import atom_kernels
from .langevin_kernels import LangevinKernels
from .state import Forces, Integrator, State
from .system import System
from .verlet import check_positive, check_timestep, drift, kick, total_energy
from .verlet_kernels import VerletKernels


def langevin(system: System, timestep: float, friction: float = 1.0) -> Integrator:
    """Constant temperature; BAOAB splitting of Langevin's equation.

        B: v += dt/2 F/m      A: r += dt/2 v      O: v = c v + sqrt((1 - c^2) kT/m) noise
        c = exp(-friction dt)

    (Leimkuhler and Matthews, 2013). Positions sample the canonical distribution with an error of
    order dt^2 that vanishes for harmonic potentials. Noise that would move a held centre of mass
    is projected out, so the remaining degrees of freedom are sampled exactly. The conserved
    quantity is the total energy less the heat that O has given.

    Args:
        system: what moves; temperatures are ``State.kT``, one for each structure.
        timestep: fs.
        friction: 1/ps.

    Raises:
        ValueError: a time step or friction that is not positive.
    """
    dt = check_timestep(timestep)
    keep = math.exp(-check_positive("friction", friction, "1/ps") / PS * dt)
    spread = math.sqrt(1.0 - keep * keep)
    fused, verlet = LangevinKernels(system, dt, keep, spread), VerletKernels(system, dt)

    def init(state: State, forces: Forces) -> State:
        heat = state.extra.get("heat", mx.zeros_like(state.energies))
        return state.evaluated(forces).with_extra(heat=heat)

    def step(state: State, forces: Forces) -> State:
        key, own = mx.random.split(state.key)
        noise = mx.random.normal(state.velocities.shape, dtype=system.dtype, key=own)
        atoms = atom_kernels(system)
        if atoms is not None:
            state = replace(fused.first(atoms, state, noise), key=key)
            return verlet.second(atoms, state.evaluated(forces))
        state = drift(kick(system, state, dt / 2), dt / 2)
        speeds = mx.sqrt(system.per_atom(state.kT)[:, None] / system.masses)
        velocities = system.constrain(keep * state.velocities + spread * speeds * noise)
        given = system.kinetic(velocities) - system.kinetic(state.velocities)
        state = replace(state, velocities=velocities, key=key)
        state = state.with_extra(heat=state.extra["heat"] + given)
        return kick(system, drift(state, dt / 2).evaluated(forces), dt / 2)

    def conserved(state: State) -> mx.array:
        return total_energy(system, state) - state.extra["heat"]

    return Integrator(init, step, conserved)
