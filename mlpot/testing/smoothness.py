"""Pairs drawn apart through the cutoff and through every radius where a formula changes."""

from __future__ import annotations

import mlx.core as mx
import numpy as np

from mlpot import derivatives, graph, kernels
from mlpot.elements import COVALENT_RADII
from mlpot.models import Potential

from .evaluation import expect_close

_AXES = np.concatenate([np.eye(3), -np.eye(3)])


def _dimers(pair: tuple[int, int], ends: np.ndarray, cutoff: float) -> graph.Graph:
    """One graph for each end (n, 3), all in one step: there are hundreds of them."""
    n = len(ends)
    near = np.repeat(np.linalg.norm(ends, axis=1) < cutoff, 2)
    receivers = np.arange(2 * n)[near]
    return graph.Graph(
        numbers=mx.array(np.tile(np.array(pair, dtype=np.int32), n)),
        positions=mx.array(np.stack([0 * ends, ends], axis=1).reshape(-1, 3), dtype=mx.float64),
        cells=mx.zeros((n, 3, 3), dtype=mx.float64),
        node_graph=mx.array(np.repeat(np.arange(n, dtype=np.int32), 2)),
        shifts=mx.zeros((len(receivers), 3), dtype=mx.float64),
        edges=kernels.EdgeIndex.from_pairs(receivers ^ 1, receivers, 2 * n),
    )


def _scan(potential: Potential, pair: tuple[int, int], ends: np.ndarray) -> list[np.ndarray]:
    """Energies (n,), forces (n, 2, 3) and HVPs (n, 2, 3) of a pair with its second atom at ends.

    The vector of the products moves the second atom away from the first, and a little sideways.
    """
    batch = _dimers(pair, ends, potential.cutoff)
    along = ends / np.linalg.norm(ends, axis=1, keepdims=True)
    v = np.stack([np.zeros_like(along), along + 0.5 * np.roll(along, 1, axis=1)], axis=1)
    results = derivatives.energy_forces_stress(potential, batch, stress=False)
    product = derivatives.hvp(potential, batch, mx.array(v.reshape(-1, 3), dtype=mx.float64))
    shape = (len(ends), 2, 3)
    forces = np.array(results.forces).reshape(shape)
    return [np.array(results.interaction_energy), forces, np.array(product).reshape(shape)]


def breakpoints(potential: Potential, pair: tuple[int, int]) -> list[float]:
    """Distances where the energy of a pair may lose smoothness: cutoff and range of ZBL."""
    found = [potential.cutoff]
    bonded = float(COVALENT_RADII[pair[0]] + COVALENT_RADII[pair[1]])
    if potential.config.zbl and bonded < potential.cutoff:
        found.append(bonded)
    return found


def _pairs(potential: Potential) -> list[tuple[int, int]]:
    first, last = potential.numbers[0], potential.numbers[-1]
    return sorted({(first, first), (first, last), (last, last)})


def continuity(potential: Potential, seed: int = 0) -> None:
    """Energy, forces and HVPs of pairs do not jump, as far as ``potential.smoothness`` says.

    The jump at a radius is extrapolated from two shrinking steps to either side of it, along x,
    y, z and their opposites. A scan of all distances then finds jumps anywhere else: energies
    must be the integral of the forces, and forces that of the products.
    """
    orders = int(min(2, potential.smoothness)) + 1
    names = ("energy", "force", "HVP")[:orders]
    steps = (1e-5, 1e-6)
    for pair in _pairs(potential):
        for radius in breakpoints(potential, pair):
            where = [radius + sign * h for h in steps for sign in (1, -1)]
            ends = (np.array(where)[:, None, None] * _AXES).reshape(-1, 3)
            for name, values in zip(names, _scan(potential, pair, ends), strict=False):
                above, below, nearer_above, nearer_below = np.split(values, 4)
                jump = (10 * (nearer_above - nearer_below) - (above - below)) / 9
                size = max(1.0, float(np.abs(values).max()))
                what = f"relative jump of the {name} of pair {pair} at {radius:.6g} Angstrom"
                expect_close(jump / size, 0.0, 1e-6, what)
        _integrals(potential, pair, orders, seed)


def _integrals(potential: Potential, pair: tuple[int, int], orders: int, seed: int) -> None:
    direction = np.random.default_rng(seed).normal(size=3)
    direction /= np.linalg.norm(direction)
    bonded = float(COVALENT_RADII[pair[0]] + COVALENT_RADII[pair[1]])
    start = min(0.8 * bonded, 0.5 * potential.cutoff)
    r, step = np.linspace(start, 1.02 * potential.cutoff, 401, retstep=True)
    energy, force, product = _scan(potential, pair, r[:, None] * direction)
    slope = -(force[:, 1] @ direction)
    # The sideways part of the vector adds nothing along the pair except its component there.
    side = np.roll(direction, 1)
    along = direction + 0.5 * side
    curvature = (product[:, 1] @ direction) / (along @ direction)
    integral = step / 2 * (slope[:-1] + slope[1:])
    if orders > 2:
        integral += step**2 / 12 * (curvature[:-1] - curvature[1:])
    size = max(1.0, float(np.abs(slope).max()))
    label = f"of pair {pair} between {start:.4g} and {r[-1]:.4g} Angstrom"
    expect_close(
        np.diff(energy) / size,
        integral / size,
        1e-5 if orders > 2 else 1e-3,
        f"relative step of the energy {label}",
        "integral of the force",
    )
    if orders > 2:
        size = max(1.0, float(np.abs(curvature).max()))
        expect_close(
            np.diff(slope) / size,
            step / 2 * (curvature[:-1] + curvature[1:]) / size,
            1e-4,
            f"relative step of the force {label}",
            "integral of the curvature",
        )


def axes(potential: Potential, seed: int = 0) -> None:
    """Pairs exactly along x, y, z and their opposites are like pairs along any direction."""
    direction = np.random.default_rng(seed).normal(size=(1, 3))
    direction /= np.linalg.norm(direction)
    for pair in _pairs(potential):
        for length in (0.4 * potential.cutoff, 0.7 * potential.cutoff):
            energy, force, product = _scan(potential, pair, length * _AXES)
            expected, along, _ = _scan(potential, pair, length * direction)
            radial = along[0, 1] @ direction[0]
            label = f"of pair {pair} along x, y, z, -x, -y, -z"
            expect_close(energy, expected[0], 1e-9, f"energy {label}", "along another direction")
            expect_close(
                force[:, 1], radial * _AXES, 1e-9, f"force {label}", "along another direction"
            )
            stiffness = np.sum(product[:, 1] * _AXES, axis=1)
            expect_close(stiffness, stiffness[0], 1e-9, f"HVP {label}", "along x")
            sideways = np.sum(product[:, 1] * np.roll(_AXES, 1, axis=1), axis=1)
            expect_close(
                sideways,
                -0.5 * radial / length,
                1e-9,
                f"HVP sideways {label}",
                "-F/r, as for every pair energy",
            )
