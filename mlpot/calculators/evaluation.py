"""Numbers from potentials: one structure, one or several members of a committee."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx
import numpy as np
from jaxtyping import Float64

from mlpot.derivatives import ReplayedForces
from mlpot.graph import Graph, batch, build
from mlpot.models import Potential


@dataclass(frozen=True)
class Values:
    """Results for one structure in float64.

    Attributes:
        energies: (n_atoms,), eV, E0 included.
        forces: (n_atoms, 3), eV/Angstrom.
        stress: (3, 3), eV/Angstrom^3, +dE/dstrain / V; None where it was not asked for.
    """

    energies: Float64[np.ndarray, " n_atoms"]
    forces: Float64[np.ndarray, "n_atoms 3"]
    stress: Float64[np.ndarray, "3 3"] | None


def isolated_energies(potential: Potential, numbers: np.ndarray) -> dict[int, float]:
    """E0 of each element in ``numbers``, eV."""
    species = sorted({int(z) for z in np.unique(numbers)})
    alone = [build([z], np.zeros((1, 3)), cutoff=potential.cutoff) for z in species]
    reference = potential.reference_energy(batch(alone))
    return dict(zip(species, (float(e) for e in reference), strict=True))


def evaluate(forces: ReplayedForces, graph: Graph, n_atoms: int, stress: bool) -> Values:
    """Energies, forces and stress of graph 0.

    Args:
        forces: of the model.
        graph: the structure, perhaps padded, in the precision of the model.
        n_atoms: how many atoms are no padding.
        stress: whether to compute it; graph 0 must have three periodic directions.
    """
    wanted = [array for array in forces(graph, stress) if array is not None]
    mx.eval(wanted)
    host = [np.array(array).astype(np.float64) for array in wanted]
    return Values(host[0][:n_atoms], host[1][:n_atoms], host[2][0] if stress else None)


def to_voigt(stress: Float64[np.ndarray, "3 3"]) -> Float64[np.ndarray, " 6"]:
    """Symmetric tensor (3, 3) as xx yy zz yz xz xy."""
    symmetric = 0.5 * (stress + stress.T)
    return symmetric[[0, 1, 2, 1, 0, 0], [0, 1, 2, 2, 2, 1]]


def combine(members: Sequence[Values]) -> dict[str, float | np.ndarray]:
    """Mean of the members as ASE results; for several also variances and all forces.

    Variances are those of the population (divided by the number of members).
    """
    energies = np.stack([values.energies for values in members])
    forces = np.stack([values.forces for values in members])
    totals = energies.sum(axis=1)
    energy = float(totals.mean())
    results: dict[str, float | np.ndarray] = {
        "energy": energy,
        "free_energy": energy,
        "energies": energies.mean(axis=0),
        "forces": forces.mean(axis=0),
    }
    stresses = [to_voigt(values.stress) for values in members if values.stress is not None]
    if stresses:
        results["stress"] = np.mean(stresses, axis=0)
    if len(members) > 1:
        results["energy_var"] = float(totals.var())
        results["forces_var"] = forces.var(axis=0)
        results["forces_comm"] = forces
    return results
