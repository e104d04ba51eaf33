"""Potentials and structures that tests of calculators and workflows share."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
from ase import Atoms
from ase.build import bulk
from embedded_atoms import EmbeddedAtoms

from mlpot.models import Potential, PotentialConfig, V2106Config

E0S = {13: -7.25, 29: -1.0e4}


def small_network(seed: int = 0, E0s: dict[int, float] = E0S) -> Potential:
    """A v2106 potential for aluminium and copper with random weights.

    Its radial networks are exact: energies from radial tables have no third derivative at knots,
    which the error of finite differences of forces needs.
    """
    mx.random.seed(seed)
    model = V2106Config(channels=4, layers=1, lmax=2, radial_neurons=[16], radial="exact")
    potential = Potential(PotentialConfig(numbers=[13, 29], cutoff=4.0, model=model, E0s=E0s))
    mx.eval(potential.parameters())
    return potential


def make_potential(kind: str, E0s: dict[int, float] = E0S) -> Potential:
    """The "network" or the "metal" of closed equations."""
    if kind == "network":
        return small_network(E0s=E0s)
    return EmbeddedAtoms(numbers=(13, 29), cutoff=4.0, E0s=E0s)


def triclinic() -> Atoms:
    """Four atoms of two elements in a skewed cell, away from any symmetry."""
    rng = np.random.default_rng(8)
    cell = np.array([[4.2, 0.3, -0.2], [1.1, 3.9, 0.4], [-0.6, 0.8, 4.6]])
    grid = np.array([[0, 0, 0], [0.5, 0.5, 0], [0.5, 0, 0.5], [0, 0.5, 0.5]])
    return Atoms(
        numbers=[13, 29, 29, 13],
        scaled_positions=grid + rng.normal(scale=0.02, size=(4, 3)),
        cell=cell,
        pbc=True,
    )


def copper(repeat: int = 2, rattle: float = 0.05, cubic: bool = True) -> Atoms:
    """A copper crystal near the equilibrium of `EmbeddedAtoms`, rattled."""
    atoms = bulk("Cu", a=3.55, cubic=cubic).repeat(repeat)
    if rattle:
        atoms.rattle(rattle, seed=4)
    return atoms
