"""Constant pressure and temperature by the equations of Martyna, Tobias and Klein."""

from __future__ import annotations

from dataclasses import replace

import mlx.core as mx
import numpy as np

from mlpot.units import GPA, PS

from .atom_kernels import atom_kernels
from .martyna_kernels import MartynaKernels
from .nose_hoover import Chain, thermostat
from .pressure import check_periodic, pressure_tensor, volumes
from .state import Forces, Integrator, State
from .system import System
from .verlet import check_positive, check_timestep, total_energy

#: Terms of the series below, right to rounding for arguments below 0.03.
_TERMS = {mx.float32: 4, mx.float64: 8}


def _exponential(x: mx.array) -> tuple[mx.array, mx.array]:
    """e^x and (e^x - 1) / x of symmetric (n, 3, 3) matrices."""
    identity = mx.broadcast_to(mx.eye(3, dtype=x.dtype), x.shape)
    total = identity
    for k in reversed(range(2, _TERMS[x.dtype] + 1)):
        total = identity + _product(x, total) / k
    return identity + _product(x, total), total


def _product(a: mx.array, b: mx.array) -> mx.array:
    """Matrix products (n, 3, 3), in full precision on every device."""
    return (a[:, :, :, None] * b[:, None, :, :]).sum(axis=2)


def npt(
    system: System,
    timestep: float,
    pressure: float = 0.0,
    *,
    tau: float = 0.1,
    tau_pressure: float = 1.0,
    full_cell: bool = False,
    chain: int = 3,
) -> Integrator:
    """Constant pressure and temperature (Martyna, Tobias and Klein, 1994).

        dr/dt = v + g r        dv/dt = F/m - (g + tr(g)/n) v        dh/dt = g h
        W dg/dt = V (P - P_0) + (2K/n) 1,    W = (n + 3) kT tau_pressure^2 / 3

    with the pressure tensor P, n degrees of freedom of the atoms and Nose-Hoover chains on atoms
    and cell. ``full_cell``: g is symmetric, so the cell does not rotate; otherwise it is g times
    the unit matrix, which is the isotropic case with its usual mass. The splitting is the
    reversible one of Tuckerman et al. (2006); exponentials are summed as series. On GPUs the same
    is done by few kernels (`mlpot.md.martyna_kernels`).

    Args:
        system: what moves; temperatures are ``State.kT``, above zero.
        timestep: fs.
        pressure: P_0, GPa.
        tau: time constant of the thermostats, ps.
        tau_pressure: time constant of the cell, ps.
        full_cell: lengths and angles of the cell change, not only its volume.
        chain: number of thermostats of each chain.

    Raises:
        ValueError: a time or time constant that is not positive, a structure that is not
            periodic in three directions, or fixed atoms.
    """
    check_periodic(system)
    dt = check_timestep(timestep)
    tau = check_positive("tau", tau, "ps") * PS
    tau_p = check_positive("tau_pressure", tau_pressure, "ps") * PS
    target = pressure * GPA
    n = system.degrees[:, None, None]
    atoms_chain = Chain("chain", system.host_degrees, tau, chain, system.dtype)
    cell_degrees = np.full(system.n_graphs, 6.0 if full_cell else 1.0)
    cell_chain = Chain("cell_chain", cell_degrees, tau_p, chain, system.dtype)
    bath = thermostat(system, atoms_chain, dt)
    fused = MartynaKernels(system, dt, tau, tau_p, target, full_cell, chain)
    one = mx.eye(3, dtype=system.dtype)[None]
    mx.eval(one)

    def mass(state: State) -> mx.array:
        return ((system.degrees + 3.0) * state.kT * (tau_p * tau_p / 3.0))[:, None, None]

    def cell_kinetic(state: State) -> mx.array:
        g = state.extra["strain_rate"]
        return 0.5 * (mass(state) * g * g).sum(axis=(1, 2))

    def cell_bath(state: State) -> State:
        state, factor = cell_chain.half_step(state, cell_kinetic(state), dt)
        return state.with_extra(strain_rate=state.extra["strain_rate"] * factor[:, None, None])

    def cell_kick(state: State) -> State:
        volume = volumes(state.cells)[:, None, None]
        kinetic = 2.0 * system.kinetic(state.velocities)[:, None, None]
        pull = volume * (pressure_tensor(system, state) - target * one) + kinetic / n * one
        if not full_cell:
            pull = (pull * one).sum(axis=(1, 2), keepdims=True) / 3.0 * one
        return state.with_extra(
            strain_rate=state.extra["strain_rate"] + dt / 2 * pull / mass(state)
        )

    def atom_kick(state: State) -> State:
        g = state.extra["strain_rate"]
        damp = -(g + (g * one).sum(axis=(1, 2), keepdims=True) / n * one) * (dt / 2)
        accelerations = state.forces / system.masses
        slowed, mean = _exponential(damp)
        velocities = system.rows_times(state.velocities, slowed) + (
            dt / 2 * system.rows_times(accelerations, mean)
        )
        return replace(state, velocities=system.constrain(velocities))

    def move(state: State) -> State:
        rate = dt * state.extra["strain_rate"]
        stretch, mean = _exponential(rate)
        positions = system.rows_times(state.positions, stretch) + dt * system.rows_times(
            state.velocities, mean
        )
        return replace(state, positions=positions, cells=_product(state.cells, stretch))

    def init(state: State, forces: Forces) -> State:
        state = cell_chain.init(atoms_chain.init(state.evaluated(forces)))
        rate = state.extra.get("strain_rate", mx.zeros_like(state.cells))
        return state.with_extra(strain_rate=rate)

    def step(state: State, forces: Forces) -> State:
        atoms = atom_kernels(system)
        if atoms is not None:
            return fused.step(atoms, state, forces)
        state = atom_kick(cell_kick(bath(cell_bath(state))))
        state = atom_kick(move(state).evaluated(forces))
        return cell_bath(bath(cell_kick(state)))

    def conserved(state: State) -> mx.array:
        enthalpy = total_energy(system, state) + target * volumes(state.cells)
        chains = atoms_chain.energy(state) + cell_chain.energy(state)
        return enthalpy + cell_kinetic(state) + chains

    return Integrator(init, step, conserved, stress=True)
