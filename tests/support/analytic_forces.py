"""Potentials with known ensembles, and quick trajectories of many replicas in one batch."""

from __future__ import annotations

from collections.abc import Callable

import mlx.core as mx
import numpy as np

from mlpot.kernels.replay import Replayed
from mlpot.md import State, System
from mlpot.md.state import Evaluation

NEVER = -1.0


def springs(system: System, anchors: np.ndarray, constants: np.ndarray) -> Callable:
    """E = sum 1/2 k_i |r_i - a_i|^2, each atom on its own spring; no cell."""
    a = mx.array(anchors, dtype=system.dtype)
    k = mx.array(constants[:, None], dtype=system.dtype)
    mx.eval(a, k)

    def forces(positions: mx.array, cells: mx.array) -> Evaluation:
        away = positions - a
        energies = system.per_graph((0.5 * k * away * away).sum(axis=1))
        return Evaluation(
            energies, -k * away, mx.zeros_like(cells), mx.array(NEVER, dtype=system.dtype)
        )

    return forces


def elastic_crystal(
    system: System, fractions: np.ndarray, k: float, cell: np.ndarray, bulk: float, shear: float
) -> Callable:
    """Einstein crystal in an elastic cell.

        E = sum 1/2 k |r_i - s_i h|^2 + V_0 (bulk/2 ln^2(V/V_0) + shear/4 |dev(C)|^2)

    with C = F^T F for h = h_0 F. Atoms' fractional coordinates s_i are fixed anchors.
    """
    s = mx.array(fractions, dtype=system.dtype)
    h0_inverse = mx.array(np.linalg.inv(cell), dtype=system.dtype)
    v0 = float(abs(np.linalg.det(cell)))

    def energy(positions, cells):
        anchors = (s[:, :, None] * system.per_atom(cells)).sum(axis=1)
        away = positions - anchors
        atoms = system.per_graph((0.5 * k * away * away).sum(axis=1))
        deform = (h0_inverse[None, :, :, None] * cells[:, None, :, :]).sum(axis=2)
        metric = (deform[:, :, :, None] * deform[:, :, None, :]).sum(axis=1)
        trace = mx.diagonal(metric, axis1=1, axis2=2).sum(axis=1)[:, None, None]
        deviator = metric - trace / 3.0 * mx.eye(3, dtype=system.dtype)
        a, b, c = cells[:, 0], cells[:, 1], cells[:, 2]
        volume = (a * mx.linalg.cross(b, c)).sum(axis=-1)
        log = mx.log(volume / v0)
        elastic = 0.5 * bulk * log * log + 0.25 * shear * (deviator * deviator).sum(axis=(1, 2))
        return atoms + v0 * elastic

    def forces(positions: mx.array, cells: mx.array) -> Evaluation:
        def strained(positions, strain):
            grown = mx.eye(3, dtype=system.dtype) + 0.5 * (strain + strain.swapaxes(1, 2))
            moved = system.rows_times(positions, grown)
            return energy(moved, (cells[:, :, :, None] * grown[:, None, :, :]).sum(axis=2)).sum()

        strain = mx.zeros(cells.shape, dtype=system.dtype)
        slope, tension = mx.grad(strained, argnums=(0, 1))(positions, strain)
        a, b, c = cells[:, 0], cells[:, 1], cells[:, 2]
        volume = (a * mx.linalg.cross(b, c)).sum(axis=-1)[:, None, None]
        never = mx.array(NEVER, dtype=system.dtype)
        return Evaluation(energy(positions, cells), -slope, tension / volume, never)

    mx.eval(s, h0_inverse)
    return forces


def ideal_gas(system: System) -> Callable:
    """No forces at all."""

    def forces(positions: mx.array, cells: mx.array) -> Evaluation:
        return Evaluation(
            mx.zeros((system.n_graphs,), dtype=system.dtype),
            mx.zeros_like(positions),
            mx.zeros_like(cells),
            mx.array(NEVER, dtype=system.dtype),
        )

    return forces


def follow(integrator, forces, state: State, steps: int, observe: Callable, every: int = 1):
    """Take steps; returns the last state and what was observed, stacked, as numpy."""
    step = Replayed(lambda arrays: integrator.step(State.from_arrays(arrays), forces).arrays())
    state = integrator.init(state, forces)
    arrays = state.arrays()
    mx.eval(arrays)
    seen = []
    for number in range(1, steps + 1):
        arrays = step(arrays)
        if number % every == 0:
            seen.append(observe(State.from_arrays(arrays)))
        if number % 20 == 0:
            mx.eval(arrays, seen)
    mx.eval(arrays, seen)
    assert step.n_traces == 1
    columns = zip(*seen, strict=True)
    return State.from_arrays(arrays), [np.array(mx.stack(list(column))) for column in columns]


def mean_error(samples: np.ndarray) -> tuple[float, float]:
    """Mean of (n_samples, n_replicas) values and its error from the spread of the replicas."""
    means = samples.mean(axis=0)
    return float(means.mean()), float(means.std(ddof=1) / np.sqrt(len(means)))


def quartic(system: System, constant: float) -> Callable:
    """E = sum of c x^4 over all components, whose mean is kT/4 each."""

    def forces(positions: mx.array, cells: mx.array) -> Evaluation:
        cubes = positions * positions * positions
        energies = system.per_graph((constant * cubes * positions).sum(axis=1))
        never = mx.array(NEVER, dtype=system.dtype)
        return Evaluation(energies, -4 * constant * cubes, mx.zeros_like(cells), never)

    return forces
