"""Small random potentials and structures for tests of calculators."""

from __future__ import annotations

from typing import Literal

import mlx.core as mx
import numpy as np
from ase import Atoms

from mlpot.models import Potential, PotentialConfig
from mlpot.models.config import V2106Config

E0S = {1: -13.6, 6: -1029.5, 8: -2043.2}


def make_potential(
    seed: int = 0,
    cutoff: float = 3.0,
    lmax: int = 1,
    radial: Literal["auto", "table", "exact"] = "auto",
) -> Potential:
    """A random potential of H, C and O that no other test shares a seed with."""
    mx.random.seed(seed)
    backbone = V2106Config(
        channels=4, lmax=lmax, number_of_basis=6, radial_neurons=[8], radial=radial
    )
    config = PotentialConfig(numbers=[1, 6, 8], cutoff=cutoff, model=backbone, E0s=E0S)
    return Potential(config)


def make_crystal(seed: int = 0) -> Atoms:
    """Five atoms in a triclinic cell, no symmetry."""
    rng = np.random.default_rng(seed)
    cell = np.array([[4.1, 0.3, -0.2], [0.8, 3.9, 0.4], [-0.5, 0.6, 4.4]])
    corners = np.array(
        [[0.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.5, 0.0, 0.5], [0.0, 0.5, 0.5], [0.5, 0.5, 0.5]]
    )
    atoms = Atoms("COHHO", cell=cell, pbc=True, scaled_positions=corners)
    atoms.positions += rng.normal(scale=0.1, size=(5, 3))
    return atoms
