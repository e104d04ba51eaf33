"""Nose-Hoover chains: constant temperature by deterministic friction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import mlx.core as mx
import numpy as np

from mlpot import kernels
from mlpot.units import PS

from .atom_kernels import atom_kernels
from .state import Forces, Integrator, State
from .system import System
from .verlet import check_positive, check_timestep, drift, kick, total_energy
from .verlet_kernels import VerletKernels


class Chain:
    """A chain of thermostats on some kinetic energy of each structure.

        Q_1 = n kT tau^2,  Q_j = kT tau^2
        G_1 = (2 K - n kT) / Q_1,  G_j = (Q_{j-1} v_{j-1}^2 - kT) / Q_j

    advanced by the symmetric splitting of Martyna, Tuckerman, Tobias and Klein (1996), eq. 26 and
    following, in one piece: time constants are much longer than a time step.

    Args:
        name: prefix of the chain's variables in ``State.extra``.
        degrees: (n_graphs,) n, degrees of freedom that the chain is coupled to.
        tau: time constant, units of the integrators.
        length: number of thermostats in a chain.
        dtype: precision.
    """

    def __init__(self, name: str, degrees, tau: float, length: int, dtype: mx.Dtype) -> None:
        if length < 1:
            raise ValueError(f"a chain of {length} thermostats cannot be: give at least 1")
        self.position, self.velocity = f"{name}_position", f"{name}_velocity"
        sizes = np.ones((len(degrees), length))
        sizes[:, 0] = degrees
        self._sizes = mx.array(sizes, dtype=dtype)
        mx.eval(self._sizes)
        self._tau2, self._length = tau * tau, length

    def init(self, state: State) -> State:
        """The state with a chain at rest, unless it has one."""
        if self.position in state.extra and state.extra[self.position].shape == self._sizes.shape:
            return state
        zeros = mx.zeros_like(self._sizes)
        return state.with_extra(**{self.position: zeros, self.velocity: zeros})

    def half_step(self, state: State, kinetic: mx.array, dt: float) -> tuple[State, mx.array]:
        """Advance the chain by dt/2.

        Args:
            state: holds the chain.
            kinetic: (n_graphs,) the energy that it is coupled to, eV.
            dt: units of the integrators.

        Returns:
            The state and the factor (n_graphs,) for the velocities that ``kinetic`` is made of.
        """
        kT, length, part = state.kT[:, None], self._length, dt / 2
        masses = self._sizes * (kT * self._tau2)
        v = [state.extra[self.velocity][:, j : j + 1] for j in range(length)]
        q = [masses[:, j : j + 1] for j in range(length)]

        def pull(j: int, twice_kinetic: mx.array) -> mx.array:
            if j == 0:
                return (twice_kinetic - self._sizes[:, :1] * kT) / q[0]
            return (q[j - 1] * v[j - 1] * v[j - 1] - kT) / q[j]

        def kick_one(j: int, twice_kinetic: mx.array) -> None:
            if j == length - 1:
                v[j] = v[j] + part / 2 * pull(j, twice_kinetic)
                return
            slow = kernels.exp(-part / 4 * v[j + 1])
            v[j] = (v[j] * slow + part / 2 * pull(j, twice_kinetic)) * slow

        twice = 2.0 * kinetic[:, None]
        for j in reversed(range(length)):
            kick_one(j, twice)
        factor = kernels.exp(-part * v[0])
        position = state.extra[self.position] + part * mx.concatenate(v, axis=1)
        twice = twice * factor * factor
        for j in range(length):
            kick_one(j, twice)
        velocity = mx.concatenate(v, axis=1)
        state = state.with_extra(**{self.position: position, self.velocity: velocity})
        return state, factor[:, 0]

    def energy(self, state: State) -> mx.array:
        """What the chain adds to the conserved quantity, (n_graphs,), eV."""
        kT = state.kT[:, None]
        v, eta = state.extra[self.velocity], state.extra[self.position]
        kinetic = 0.5 * self._sizes * (kT * self._tau2) * v * v
        return (kinetic + self._sizes * kT * eta).sum(axis=1)


def thermostat(system: System, chain: Chain, dt: float) -> Callable[[State], State]:
    """Half a step of a chain that is coupled to all atoms of a structure."""

    def move(state: State) -> State:
        state, factor = chain.half_step(state, system.kinetic(state.velocities), dt)
        return replace(state, velocities=state.velocities * system.per_atom(factor)[:, None])

    return move


def nose_hoover(system: System, timestep: float, tau: float = 0.1, chain: int = 3) -> Integrator:
    """Constant temperature by a Nose-Hoover chain on the kinetic energy of each structure.

        dv/dt = F/m - v v_1,   half a step of the chain before and after velocity Verlet

    (Martyna, Klein and Tuckerman, 1992; Martyna et al., 1996). Deterministic and time-reversible;
    the conserved quantity is the extended energy.

    Args:
        system: what moves; temperatures are ``State.kT``, above zero, one for each structure.
        timestep: fs.
        tau: time constant, ps.
        chain: number of thermostats.

    Raises:
        ValueError: a time step or time constant that is not positive, or an empty chain.
    """
    dt = check_timestep(timestep)
    tau = check_positive("tau", tau, "ps") * PS
    links = Chain("chain", system.host_degrees, tau, chain, system.dtype)
    bath = thermostat(system, links, dt)
    fused = VerletKernels(system, dt, chain, tau)

    def init(state: State, forces: Forces) -> State:
        return links.init(state.evaluated(forces))

    def step(state: State, forces: Forces) -> State:
        atoms = atom_kernels(system)
        if atoms is not None:
            return fused.second(atoms, fused.first(atoms, state).evaluated(forces))
        state = drift(kick(system, bath(state), dt / 2), dt).evaluated(forces)
        return bath(kick(system, state, dt / 2))

    def conserved(state: State) -> mx.array:
        return total_energy(system, state) + links.energy(state)

    return Integrator(init, step, conserved)
