"""Stochastic rescaling of all velocities: constant temperature, gentle on the dynamics."""

from __future__ import annotations

import math
from dataclasses import replace

import mlx.core as mx
import numpy as np

from mlpot.units import PS

from .atom_kernels import atom_kernels
from .rescaling_kernels import RescalingKernels
from .state import Forces, Integrator, State
from .system import System
from .verlet import check_positive, check_timestep, drift, kick, total_energy
from .verlet_kernels import VerletKernels


class VelocityRescaling:
    """The move of `bussi` on velocities alone; the heat it gives is added to ``extra["heat"]``.

        K' = c K + (1 - c) (kT/2) sum_i R_i^2 + 2 R_1 sqrt(c (1 - c) K kT/2),   c = exp(-dt/tau)

    with as many normal deviates R as degrees of freedom.

    Args:
        system: what moves.
        dt: time step in units of the integrators.
        tau: relaxation time in the same units.

    Attributes:
        keep: c.
    """

    def __init__(self, system: System, dt: float, tau: float) -> None:
        self._system = system
        self.keep = math.exp(-dt / tau)
        most = int(system.host_degrees.max())
        counted = np.arange(1, most + 1)[None, :] <= system.host_degrees[:, None]
        self._mask = mx.array(counted.astype(np.float64), dtype=system.dtype)
        mx.eval(self._mask)

    def deviates(self, state: State) -> tuple[State, mx.array]:
        """R of each structure, (n_graphs, n_deviates), zero behind its degrees of freedom."""
        key, own = mx.random.split(state.key)
        drawn = mx.random.normal(self._mask.shape, dtype=self._system.dtype, key=own)
        return replace(state, key=key), self._mask * drawn

    def __call__(self, state: State) -> State:
        """The move."""
        system, keep = self._system, self.keep
        state, deviates = self.deviates(state)
        kinetic = system.kinetic(state.velocities)
        half_kT = 0.5 * state.kT
        noise = (deviates * deviates).sum(axis=1)
        cross = 2.0 * deviates[:, 0] * mx.sqrt(keep * (1.0 - keep) * kinetic * half_kT)
        wanted = mx.maximum(keep * kinetic + (1.0 - keep) * half_kT * noise + cross, 0.0)
        # Atoms at rest cannot be scaled to a temperature.
        moving = kinetic > 0
        ratio = mx.where(moving, wanted / mx.where(moving, kinetic, mx.ones_like(kinetic)), 1.0)
        # The amplitude may go through zero: then velocities are reversed.
        sign = mx.where(
            deviates[:, 0] + mx.sqrt(keep / (1.0 - keep) * kinetic / half_kT) < 0, -1.0, 1.0
        )
        factor = (sign * mx.sqrt(ratio)).astype(system.dtype)
        heat = state.extra["heat"] + kinetic * (ratio.astype(system.dtype) - 1.0)
        velocities = state.velocities * system.per_atom(factor)[:, None]
        return replace(state, velocities=velocities).with_extra(heat=heat)


def bussi(system: System, timestep: float, tau: float = 0.1) -> Integrator:
    """Constant temperature by canonical sampling through velocity rescaling.

    Velocity Verlet, then all velocities of a structure are multiplied with one random number, by
    which its kinetic energy follows the canonical distribution (Bussi, Donadio and Parrinello,
    2007). The conserved quantity is the total energy less the heat given.

    Args:
        system: what moves; temperatures are ``State.kT``, above zero, one for each structure.
        timestep: fs.
        tau: relaxation time of the kinetic energy, ps.

    Raises:
        ValueError: a time step or time constant that is not positive.
    """
    dt = check_timestep(timestep)
    rescale = VelocityRescaling(system, dt, check_positive("tau", tau, "ps") * PS)
    verlet, fused = VerletKernels(system, dt), RescalingKernels(system, dt, rescale.keep)

    def init(state: State, forces: Forces) -> State:
        heat = state.extra.get("heat", mx.zeros_like(state.energies))
        return state.evaluated(forces).with_extra(heat=heat)

    def step(state: State, forces: Forces) -> State:
        atoms = atom_kernels(system)
        if atoms is not None:
            state, sums = verlet.kick(atoms, verlet.first(atoms, state).evaluated(forces))
            state, deviates = rescale.deviates(state)
            return fused.end(atoms, state, sums, deviates)
        state = drift(kick(system, state, dt / 2), dt).evaluated(forces)
        return rescale(kick(system, state, dt / 2))

    def conserved(state: State) -> mx.array:
        return total_energy(system, state) - state.extra["heat"]

    return Integrator(init, step, conserved)
