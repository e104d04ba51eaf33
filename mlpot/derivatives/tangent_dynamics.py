"""A trajectory together with how it answers to its beginning and to the parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import mlx.core as mx
import numpy as np
from jaxtyping import Float64

from mlpot.graph import VerletList
from mlpot.models import Potential
from mlpot.units import FS

from .first import energy_forces_stress
from .response import set_parameters, with_parameters


@dataclass(frozen=True)
class TangentTrajectory:
    """Result of `tangent_dynamics`; the first of each array is the start.

    Args:
        positions: (n_steps + 1, n_atoms, 3), Angstrom, not wrapped.
        velocities: (n_steps + 1, n_atoms, 3), Angstrom/fs.
        position_tangents: (n_steps + 1, n_atoms, 3), d positions along the direction.
        velocity_tangents: (n_steps + 1, n_atoms, 3), per fs.
        growth: (n_steps,), logarithm of how much the tangent grew in each step; its size is
            sqrt(|dr|^2 + (10 fs)^2 |dv|^2).
        timestep: fs.
    """

    positions: Float64[np.ndarray, "n_frames n_atoms 3"]
    velocities: Float64[np.ndarray, "n_frames n_atoms 3"]
    position_tangents: Float64[np.ndarray, "n_frames n_atoms 3"]
    velocity_tangents: Float64[np.ndarray, "n_frames n_atoms 3"]
    growth: Float64[np.ndarray, " n_steps"]
    timestep: float

    def lyapunov_exponent(self, skip: int = 0) -> float:
        """Mean rate of growth after the first ``skip`` steps, 1/ps: the largest exponent, in time.

        A tangent needs some time to turn into the direction that grows fastest.
        """
        return float(self.growth[skip:].mean() / self.timestep * 1e3)


def tangent_dynamics(
    potential: Potential,
    numbers,
    positions,
    velocities,
    masses,
    timestep: float,
    steps: int,
    *,
    cell=None,
    pbc: Any = False,
    position_tangent=None,
    velocity_tangent=None,
    parameters: Mapping[str, Any] | None = None,
    normalize: bool = False,
    skin: float = 0.5,
) -> TangentTrajectory:
    """Velocity Verlet and its exact derivative along a direction, side by side.

        v' = v + dt/2 F(r)/m        dv' = dv + dt/2 dF/m
        r+ = r + dt v'              dr+ = dr + dt dv'
        v+ = v' + dt/2 F(r+)/m      dv+ = dv' + dt/2 dF+/m
        dF = -H dr + dF/dparameters dparameters

    One forward pass over the forces gives F and dF. The tangent is the derivative of the discrete
    trajectory, so differences of two trajectories converge to it. With ``normalize`` it is scaled
    back to its first size after each step (Benettin's method, Meccanica 15, 9 (1980)), for the
    largest Lyapunov exponent of long trajectories. With ``parameters`` it is the sensitivity of
    the trajectory to the weights, in forward mode: memory does not grow with the steps.

    Args:
        potential: the model; its precision is used (float64 needs a CPU stream).
        numbers: (n_atoms,) atomic numbers.
        positions: (n_atoms, 3), Angstrom.
        velocities: (n_atoms, 3), Angstrom/fs.
        masses: (n_atoms,), u.
        timestep: fs.
        steps: number of steps.
        cell: lattice vectors as rows; None for none.
        pbc: periodic directions.
        position_tangent: (n_atoms, 3), of the start; zero by default.
        velocity_tangent: (n_atoms, 3), per fs; zero by default.
        parameters: change of parameters by their names, as of `response`.
        normalize: scale the tangent back after each step; not with parameters.
        skin: Angstrom, of the list of pairs.

    Returns:
        The trajectory with its tangents.

    Raises:
        ValueError: wrong shapes or numbers, or no direction.
    """
    state = _State(positions, velocities, masses, position_tangent, velocity_tangent)
    if not timestep > 0 or steps < 1:
        raise ValueError(f"timestep is {timestep} fs and steps is {steps}; both must be above 0")
    if state.size == 0 and not parameters:
        raise ValueError("no direction was given: give tangents of the start or parameters")
    if normalize and parameters:
        raise ValueError("the sensitivity to parameters cannot be scaled: give normalize=False")
    model, names, weights, along = with_parameters(potential, parameters)
    pairs = VerletList(model.cutoff, skin)
    species = np.asarray(numbers)

    def forces() -> tuple[np.ndarray, np.ndarray]:
        graph = pairs.graph(species, state.r, cell, pbc, dtype=model.dtype, padded=False)

        def function(xyz: mx.array, *arrays: mx.array) -> list[mx.array]:
            set_parameters(model, names, arrays)
            return [energy_forces_stress(model, replace(graph, positions=xyz), False).forces]

        tangent = mx.array(state.dr, dtype=model.dtype)
        values, changes = mx.jvp(function, [graph.positions, *weights], [tangent, *along])
        mx.eval(values, changes)
        return np.array(values[0]).astype(np.float64), np.array(changes[0]).astype(np.float64)

    # Velocities are per fs: eV/Angstrom/u to Angstrom/fs^2.
    factor = FS**2 / state.masses[:, None]
    frames = [state.frame()]
    growth = []
    push, change = forces()
    for _ in range(steps):
        before = state.size
        state.v = state.v + 0.5 * timestep * factor * push
        state.dv = state.dv + 0.5 * timestep * factor * change
        state.r = state.r + timestep * state.v
        state.dr = state.dr + timestep * state.dv
        push, change = forces()
        state.v = state.v + 0.5 * timestep * factor * push
        state.dv = state.dv + 0.5 * timestep * factor * change
        growth.append(np.log(state.size / before) if before > 0 else 0.0)
        if normalize:
            scale = before / state.size
            state.dr, state.dv, change = scale * state.dr, scale * state.dv, scale * change
        frames.append(state.frame())
    r, v, dr, dv = (np.array(column) for column in zip(*frames, strict=True))
    return TangentTrajectory(r, v, dr, dv, np.array(growth), float(timestep))


class _State:
    """Positions, velocities and tangents in float64."""

    #: Makes one size of displacements and velocities, fs.
    time = 10.0

    def __init__(self, positions, velocities, masses, dr, dv) -> None:
        self.r = np.array(positions, dtype=np.float64)
        self.masses = np.array(masses, dtype=np.float64)
        still = np.zeros_like(self.r)
        self.v = np.array(velocities, dtype=np.float64)
        self.dr = still if dr is None else np.array(dr, dtype=np.float64)
        self.dv = still if dv is None else np.array(dv, dtype=np.float64)
        named = {"velocities": self.v, "position_tangent": self.dr, "velocity_tangent": self.dv}
        for name, array in named.items():
            if array.shape != self.r.shape or array.ndim != 2 or array.shape[1] != 3:
                raise ValueError(f"{name} has shape {array.shape}, positions {self.r.shape}")
        if self.masses.shape != self.r.shape[:1] or not np.all(self.masses > 0):
            raise ValueError(
                f"masses have shape {self.masses.shape}; give {len(self.r)} positive numbers"
            )

    @property
    def size(self) -> float:
        return float(np.sqrt(np.sum(self.dr**2) + self.time**2 * np.sum(self.dv**2)))

    def frame(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        return self.r, self.v, self.dr, self.dv
