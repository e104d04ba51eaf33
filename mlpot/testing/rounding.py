"""Energies in float32 keep their digits however large the energies of the atoms are."""

from __future__ import annotations

import mlx.core as mx
import numpy as np

from mlpot import derivatives, graph
from mlpot.models import Potential

from .evaluation import evaluate, precision
from .structures import atoms_at, cluster, rotation

#: eV; the E0 of heavy elements in all-electron calculations.
_E0 = -1e4


def float32_noise(potential: Potential, seed: int = 0) -> None:
    """Rotated copies of a molecule in float32 scatter little in energy with E0 = -1e4 eV."""
    rng = np.random.default_rng(seed)
    molecule = cluster(potential, rng)
    copies = [molecule.mapped(rotation(rng)) for _ in range(8)]
    alone = [
        evaluate(potential, atoms_at([z], np.zeros((1, 3)))).nodes[0] for z in molecule.numbers
    ]
    exact = evaluate(potential, molecule)
    size = 1.0 + float(np.abs(exact.nodes - alone).sum() + np.abs(exact.forces).sum())
    own = potential._E0s
    potential._E0s = np.full_like(own, _E0)
    try:
        with precision(potential, mx.float32):
            batch = graph.batch([copy.graph(potential, mx.float32) for copy in copies])
            total = derivatives.energy_forces_stress(potential, batch).energy
    finally:
        potential._E0s = own
    if total.dtype != np.float64:
        raise AssertionError(f"the total energy is {total.dtype}; only float64 holds its digits")
    expected = exact.energy[0] + len(molecule.numbers) * _E0
    error = np.abs(total - expected).max()
    if not error <= 1e-5 * size:
        raise AssertionError(
            f"float32 energies with E0 = {_E0:g} eV are wrong by {error:.3g} eV where "
            f"{1e-5 * size:.3g} is allowed for interactions of {size:.3g} eV"
        )
