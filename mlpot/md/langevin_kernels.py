"""Steps of `mlpot.md.langevin` by few GPU kernels."""

from __future__ import annotations

import mlx.core as mx
from jaxtyping import Float

from .atom_kernels import A, AtomKernels, D, M, R, U
from .state import State
from .structure_kernels import BEGIN, WITHOUT_CENTRE, StructureKernel, indented, planned, unit
from .system import System
from .verlet_kernels import constants, kicks

_BEFORE = """
for (int k = 0; k < 3; ++k) bath[5 * s + k] = u[k];
bath[5 * s + 3] = SQRT(heat);
bath[5 * s + 4] = 0.5f * twice;
"""
_HEAT = "heat_out[s] = heat_given[s] + (0.5f * twice - bath[5 * s + 4]);\n"
_HALF_DRIFT = {A: unit("1.0f"), M: "0.0f", U: "u[k]", R: unit("1.0f"), D: unit("0.5f * dt")}


class LangevinKernels:
    """The first half of a step, with friction and noise between two halves of the drift.

    Args:
        system: what moves, in float32.
        dt: time step, units of the integrators.
        keep: c, the share of the velocities that is kept.
        spread: sqrt(1 - c^2).
    """

    def __init__(self, system: System, dt: float, keep: float, spread: float) -> None:
        self._system, self._kicks = system, kicks(system, dt)
        self._numbers = constants([dt])
        self._factors = constants([0.5 * dt, keep, spread])
        inputs = ["sums", "degrees", "inverse_total", "numbers"]
        self._before = StructureKernel(
            "langevin_before",
            inputs,
            {"bath": (5,)},
            indented("\n".join([BEGIN, WITHOUT_CENTRE, _BEFORE])),
        )
        self._after = StructureKernel(
            "langevin_after",
            [*inputs, "bath", "heat_given"],
            {"plan": (39,), "heat_out": (1,)},
            indented("\n".join([BEGIN, WITHOUT_CENTRE, _HEAT, planned("plan", _HALF_DRIFT)])),
        )

    def first(self, atoms: AtomKernels, state: State, noise: Float[mx.array, "n_atoms 3"]) -> State:
        """Until the new positions; the noise is normally distributed."""
        system = self._system
        shared = {
            "kT": state.kT,
            "degrees": system.degrees,
            "inverse_total": system.inverse_total,
            "numbers": self._numbers,
        }
        state, sums = atoms.kick(state, self._kicks)
        bath = self._before(sums=sums, **shared)["bath"]
        state, sums = atoms.shaken(state, noise, bath, self._factors)
        found = self._after(sums=sums, bath=bath, heat_given=state.extra["heat"], **shared)
        state = atoms.advance(state, found["plan"])
        return state.with_extra(heat=found["heat_out"].reshape(-1))
