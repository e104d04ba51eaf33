"""Velocity Verlet by few GPU kernels, alone and with thermostats between its steps."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np
from jaxtyping import Float

from .atom_kernels import A, AtomKernels, D, M, R, U
from .state import State
from .structure_kernels import (
    BEGIN,
    WITHOUT_CENTRE,
    StructureKernel,
    chain,
    indented,
    planned,
    scaled,
    unit,
)
from .system import System

#: Writes the factor and the velocity that all atoms lose at the end of a step.
LAST = """
last[4 * s] = factor;
for (int k = 0; k < 3; ++k) last[4 * s + 1 + k] = u[k];
"""
_CENTRE_AFTER_KICK = """
float u[3];
for (int k = 0; k < 3; ++k)
    u[k] = (momentum[k] + 0.5f * dt * sums[(9 + k) * n_graphs + s]) * inverse_total[s];
"""
_CHAIN = ["chain_position", "chain_velocity"]


def constants(values: Any) -> mx.array:
    """Numbers that kernels read, evaluated."""
    with mx.stream(mx.cpu):
        found = mx.array(values, dtype=mx.float32)
        mx.eval(found)
    return found


def kicks(system: System, dt: float) -> mx.array:
    """What `AtomKernels.kick` takes for v + dt/2 F/m, evaluated."""
    identity = np.eye(3).ravel()
    return constants(np.tile(np.concatenate([identity, 0.5 * dt * identity]), (system.n_graphs, 1)))


class VerletKernels:
    """Both halves of a step, with half a step of a Nose-Hoover chain before and after if wanted.

    Args:
        system: what moves, in float32.
        dt: time step, units of the integrators.
        length: thermostats of the chain, 0 for none.
        tau: time constant of the chain.
    """

    def __init__(self, system: System, dt: float, length: int = 0, tau: float = 1.0) -> None:
        self._system, self._length = system, length
        self._numbers = constants([dt, tau * tau])
        self._kicks = kicks(system, dt)
        bath, inputs, own = "const float factor = 1.0f;", [], {}
        if length:
            bath = chain("chain", length, "twice", "n", "numbers[1]", "factor")
            inputs, own = _CHAIN, {f"{name}_out": (length,) for name in _CHAIN}
        inputs = ["sums", "degrees", "inverse_total", "numbers", *inputs]
        plan = {A: unit("factor"), M: unit("0.5f * dt"), U: "u[k]", R: unit("1.0f"), D: unit("dt")}
        before = [BEGIN, bath, scaled("factor"), _CENTRE_AFTER_KICK, planned("plan", plan)]
        after = [BEGIN, WITHOUT_CENTRE, bath, LAST]
        self._before, self._after = (
            StructureKernel(f"{name}_{length}", inputs, own | out, indented("\n".join(body)))
            for name, out, body in (
                ("verlet_before", {"plan": (39,)}, before),
                ("verlet_after", {"last": (4,)}, after),
            )
        )

    def _found(self, kernel: StructureKernel, state: State, sums: mx.array) -> dict[str, mx.array]:
        chains = {name: state.extra[name] for name in _CHAIN if self._length}
        return kernel(
            kT=state.kT,
            sums=sums,
            degrees=self._system.degrees,
            inverse_total=self._system.inverse_total,
            numbers=self._numbers,
            **chains,
        )

    def _with_chain(self, state: State, found: dict[str, mx.array]) -> State:
        names = _CHAIN if self._length else []
        return state.with_extra(**{name: found[f"{name}_out"] for name in names})

    def first(self, atoms: AtomKernels, state: State) -> State:
        """Until the new positions."""
        found = self._found(self._before, state, atoms.sums(state))
        return self._with_chain(atoms.advance(state, found["plan"]), found)

    def kick(self, atoms: AtomKernels, state: State) -> tuple[State, Float[mx.array, "9 n_graphs"]]:
        """Half a step of the velocities; the centre of mass still moves."""
        return atoms.kick(state, self._kicks)

    def second(self, atoms: AtomKernels, state: State) -> State:
        """From the new forces to the end."""
        state, sums = self.kick(atoms, state)
        found = self._found(self._after, state, sums)
        return self._with_chain(atoms.finish(state, found["last"]), found)
