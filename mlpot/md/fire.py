"""FIRE: relaxation by molecular dynamics that turns towards the forces."""

from __future__ import annotations

from dataclasses import replace

import mlx.core as mx

from mlpot.units import FS

from .state import Forces, Integrator, State
from .system import System
from .verlet import check_positive

_GROW, _SHRINK, _ALPHA, _FADE, _PATIENCE = 1.1, 0.5, 0.1, 0.99, 5
_FIRST, _LONGEST = 1.0 * FS, 10.0 * FS
#: Mass of every atom while relaxing, u: one that suits steps of femtoseconds.
_MASS = 10.0


def largest_force(system: System, forces: mx.array) -> mx.array:
    """Largest force on an atom of each structure that may move, (n_graphs,), eV/Angstrom."""
    lengths = mx.sqrt((forces * forces).sum(axis=1)) * system.mobile
    if system.n_graphs == 1:
        return lengths.max(keepdims=True)
    owner = system.node_graph[None, :] == mx.arange(system.n_graphs)[:, None]
    return mx.where(owner, lengths[None], mx.zeros_like(lengths)[None]).max(axis=1)


def fire(system: System, fmax: float = 0.01, max_step: float = 0.1) -> Integrator:
    """Fast inertial relaxation of the atoms of every structure of a batch.

        v = (1 - alpha) v + alpha |v| F/|F|        P = F v

    While P > 0 time step and trust grow; where P < 0 a structure stops and starts again with a
    shorter step (Bitzek, Koskinen, Gahler, Moseler and Gumbsch, 2006). Structures whose largest
    force is at most ``fmax`` stand still. Cells are kept. The quantity called conserved is the
    energy, which falls.

    Args:
        system: what moves.
        fmax: eV/Angstrom.
        max_step: longest step of an atom, Angstrom.

    Raises:
        ValueError: a limit that is not positive.
    """
    check_positive("fmax", fmax, "eV/Angstrom")
    check_positive("max_step", max_step, "Angstrom")

    def init(state: State, forces: Forces) -> State:
        state = state.evaluated(forces)
        ones = mx.ones_like(state.energies)
        fresh = {"fire_dt": _FIRST * ones, "fire_alpha": _ALPHA * ones, "fire_good": 0.0 * ones}
        state = replace(state, velocities=mx.zeros_like(state.velocities))
        return state.with_extra(**{**fresh, "fmax": largest_force(system, state.forces)})

    def step(state: State, forces: Forces) -> State:
        extra = state.extra
        pull = system.constrain(state.forces / _MASS) * _MASS
        power = system.per_graph((pull * state.velocities).sum(axis=1))
        uphill = power < 0
        good = mx.where(uphill, 0.0 * power, extra["fire_good"] + 1.0)
        sure = good > _PATIENCE
        dt = mx.where(sure, mx.minimum(extra["fire_dt"] * _GROW, _LONGEST), extra["fire_dt"])
        dt = mx.where(uphill, extra["fire_dt"] * _SHRINK, dt)
        alpha = mx.where(sure, extra["fire_alpha"] * _FADE, extra["fire_alpha"])
        alpha = mx.where(uphill, _ALPHA + 0.0 * alpha, alpha)
        moving = (extra["fmax"] > fmax).astype(system.dtype)
        speed = mx.sqrt(system.per_graph((state.velocities * state.velocities).sum(axis=1)))
        strength = mx.sqrt(system.per_graph((pull * pull).sum(axis=1)))
        turn = alpha * speed / mx.maximum(strength, 1e-20)
        keep = mx.where(uphill, 0.0 * alpha, 1.0 - alpha)
        turn = mx.where(uphill, 0.0 * turn, turn)

        def each(values: mx.array) -> mx.array:
            return system.per_atom(values)[:, None]

        velocities = each(keep) * state.velocities + each(turn) * pull + each(dt) * pull / _MASS
        move = each(dt) * velocities
        length = mx.sqrt((move * move).sum(axis=1, keepdims=True))
        move = move * mx.minimum(1.0, max_step / mx.maximum(length, 1e-20))
        state = replace(
            state,
            positions=state.positions + each(moving) * move,
            velocities=each(moving) * velocities,
        ).evaluated(forces)
        return state.with_extra(
            fire_dt=dt,
            fire_alpha=alpha,
            fire_good=good,
            fmax=largest_force(system, state.forces),
        )

    return Integrator(init, step, lambda state: state.energies)
