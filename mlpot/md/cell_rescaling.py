"""Stochastic cell rescaling: constant pressure by a first-order equation for the volume."""

from __future__ import annotations

from dataclasses import replace

import mlx.core as mx

from mlpot.units import GPA, PS

from .atom_kernels import atom_kernels
from .bussi import VelocityRescaling
from .pressure import check_periodic, volumes
from .pressure import pressure as pressure_of
from .rescaling_kernels import CellKernels, RescalingKernels
from .state import Forces, Integrator, State
from .system import System
from .verlet import check_positive, check_timestep, drift, kick, total_energy


def cell_rescaling(
    system: System,
    timestep: float,
    pressure: float = 0.0,
    *,
    tau: float = 0.1,
    tau_pressure: float = 1.0,
    compressibility: float = 0.01,
) -> Integrator:
    """Constant pressure and temperature by stochastic cell rescaling (Bernetti and Bussi, 2020).

        d lambda = -(beta lambda / (2 tau_p)) (P_0 - P - kT / (2V)) dt + sqrt(kT beta/(2 tau_p)) dW

    for lambda = sqrt(V), whose noise does not depend on the volume; positions are scaled with the
    cell, velocities inversely. It happens between the two halves of the drift of velocity Verlet,
    with the virial of the step's beginning; velocities are then rescaled as in `bussi`. Unlike
    Berendsen's barostat the volume fluctuates as it should. The conserved quantity is the
    enthalpy less what both baths have given (the potential energy's part by the mean virial of
    before and after).

    Args:
        system: what moves; temperatures are ``State.kT``, above zero.
        timestep: fs.
        pressure: P_0, GPa.
        tau: relaxation time of the kinetic energy, ps.
        tau_pressure: relaxation time of the pressure, ps, if the compressibility is right.
        compressibility: beta, 1/GPa: the scale of the time constant only.

    Raises:
        ValueError: a time or time constant that is not positive, a structure that is not
            periodic in three directions, or fixed atoms.
    """
    check_periodic(system)
    dt = check_timestep(timestep)
    rescale = VelocityRescaling(system, dt, check_positive("tau", tau, "ps") * PS)
    tau_p = check_positive("tau_pressure", tau_pressure, "ps") * PS
    beta = check_positive("compressibility", compressibility, "1/GPa") / GPA
    target, rate = pressure * GPA, beta * dt / (2.0 * tau_p)

    cell_kernels = CellKernels(system, dt, rate, target)
    fused = RescalingKernels(system, dt, rescale.keep, cell=True)

    def virial(state: State) -> mx.array:
        return volumes(state.cells) * mx.diagonal(state.stresses, axis1=1, axis2=2).sum(axis=1)

    def drawn(state: State) -> tuple[State, mx.array]:
        key, own = mx.random.split(state.key)
        noise = mx.random.normal((system.n_graphs,), dtype=system.dtype, key=own)
        return replace(state, key=key), noise

    def breathe(state: State) -> tuple[State, mx.array]:
        """Scale cell, positions and velocities; returns the linear strain too."""
        state, noise = drawn(state)
        volume = volumes(state.cells)
        root = mx.sqrt(volume)
        pull = target - pressure_of(system, state) - 0.5 * state.kT / volume
        change = -rate * root * pull + mx.sqrt(rate * state.kT) * noise
        scale = mx.power(mx.abs((root + change) / root), 2.0 / 3.0)
        per_atom = system.per_atom(scale)[:, None]
        kinetic = system.kinetic(state.velocities)
        given = kinetic * (1.0 / (scale * scale) - 1.0)
        given = given + target * volume * (scale * scale * scale - 1.0)
        state = replace(
            state,
            positions=state.positions * per_atom,
            velocities=state.velocities / per_atom,
            cells=state.cells * scale[:, None, None],
        )
        return state.with_extra(heat=state.extra["heat"] + given), scale - 1.0

    def init(state: State, forces: Forces) -> State:
        heat = state.extra.get("heat", mx.zeros_like(state.energies))
        return state.evaluated(forces).with_extra(heat=heat)

    def step(state: State, forces: Forces) -> State:
        atoms = atom_kernels(system)
        if atoms is not None:
            state, noise = drawn(state)
            state, work = cell_kernels.breathe(atoms, state, noise)
            state, sums = cell_kernels.kick(atoms, state.evaluated(forces))
            state, deviates = rescale.deviates(state)
            return fused.end(atoms, state, sums, deviates, work)
        before = virial(state)
        state = drift(kick(system, state, dt / 2), dt / 2)
        state, strain = breathe(state)
        state = drift(state, dt / 2).evaluated(forces)
        worked = 0.5 * (before + virial(state)) * strain
        state = state.with_extra(heat=state.extra["heat"] + worked)
        return rescale(kick(system, state, dt / 2))

    def conserved(state: State) -> mx.array:
        enthalpy = total_energy(system, state) + target * volumes(state.cells)
        return enthalpy - state.extra["heat"]

    return Integrator(init, step, conserved, stress=True)
