"""Crystals and molecules of the measurements, as systems and engines."""

from __future__ import annotations

import time

import mlx.core as mx
import numpy as np
from ase import Atoms
from ase.build import bulk, molecule

import mlpot
from mlpot import md
from mlpot.md.engine import Engine, make_pairs
from mlpot.units import KB


class Clock:
    """Seconds since a part began, and whether its time is over.

    Args:
        limit: seconds.
    """

    def __init__(self, limit: float) -> None:
        self.limit, self._begun = limit, time.perf_counter()

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.perf_counter() - self._begun

    @property
    def over(self) -> bool:
        """Whether the limit is reached."""
        return self.seconds > self.limit


def load(path: str, dtype=mx.float32):
    """A potential in a precision."""
    potential = mlpot.load(path)
    potential.set_dtype(dtype)
    mx.eval(potential.parameters())
    return potential


def crystal(n_atoms: int) -> Atoms:
    """Copper with about so many atoms (a multiple of four), rattled a little."""
    target = max(1, round(n_atoms / 4))
    side = max(1, round(target ** (1 / 3)))
    shape = [side, side, max(1, round(target / side**2))]
    atoms = bulk("Cu", a=3.63, cubic=True).repeat(shape)
    atoms.rattle(0.02, seed=1)
    return atoms


def ethanol(potential) -> Atoms:
    """Ethanol relaxed with the potential in float64 on the CPU."""
    from ase.optimize import BFGS

    from mlpot.calculators import MLPotCalculator

    atoms = molecule("CH3CH2OH")
    atoms.calc = MLPotCalculator(potential, dtype="float64")
    BFGS(atoms, logfile=None).run(fmax=1e-3, steps=300)
    atoms.calc = None
    return atoms


def prepare(atoms: Atoms, temperature: float, dtype=mx.float32, seed: int = 0):
    """System and first state with drawn velocities."""
    masses = atoms.get_masses()
    rotation = not atoms.pbc.any()
    system = md.System(
        atoms.numbers,
        masses,
        pbc=atoms.pbc,
        no_rotation=rotation,
        positions=atoms.positions,
        dtype=dtype,
    )
    momenta = md.maxwell_boltzmann(
        masses, atoms.positions, temperature, np.random.default_rng(seed), rotation=rotation
    )
    cell = np.where(np.array(atoms.pbc)[:, None], np.array(atoms.cell), 0.0)
    state = md.initial_state(
        system, atoms.positions, momenta / masses[:, None], cell, kT=KB * temperature, seed=seed
    )
    return system, state


def engine_of(potential, system, integrator, skin: float = 0.5, where: str = "auto") -> Engine:
    """An engine with its own lists."""
    return Engine(system, potential, integrator, make_pairs(system, potential.cutoff, skin, where))


def run_blocks(engine, state, steps: int, block: int = 20, every: int = 0):
    """Take steps; returns the last state and observables of every so many steps."""
    rows = []
    for start in range(0, steps, block):
        count = min(block, steps - start)
        wanted = (
            (lambda k, s=start: every > 0 and (s + k) % every == 0) if every else (lambda k: False)
        )
        state, seen = engine.block(state, count, wanted)
        for k, (found, _) in seen.items():
            if every and (start + k) % every == 0:
                rows.append({n: float(a[0]) for n, a in found.items()})
    return state, {name: np.array([row[name] for row in rows]) for name in rows[0]} if rows else {}
