"""Labels of a batch as arrays, with masks for what is not known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import mlx.core as mx
import numpy as np
from jaxtyping import Bool, Float


@dataclass(frozen=True)
class Labels:
    """What a loss compares with; unknown and padding entries are 0 with mask False.

    Args:
        energy: (n_graphs,), energy minus the sum of the atoms' E0, eV.
        energy_mask: (n_graphs,), whether the energy is known.
        forces: (n_atoms, 3), eV/Angstrom.
        forces_mask: (n_atoms,), whether the forces are known.
        stress: (n_graphs, 3, 3), eV/Angstrom^3.
        stress_mask: (n_graphs,), whether the stress is known.
        n_atoms: (n_graphs,), number of atoms; 1 for padding graphs, safe to divide by.
        energy_weight: (n_graphs,), frame weight times energy weight; 0 for padding.
        forces_weight: (n_atoms,), the same for forces, one entry an atom.
        stress_weight: (n_graphs,), the same for stress.
        hvp_vectors: (n_atoms, 3), one direction for each structure.
        hvps: (n_atoms, 3), Hessian of the energy times that direction, eV/Angstrom^2.
        hvps_mask: (n_atoms,), whether the product is known.
        hvps_weight: (n_atoms,), frame weight times its weight of products.
        known: how many energies, atoms with forces, stresses and atoms with products are known,
            counted where the labels were made; None: only the masks tell.
    """

    energy: Float[mx.array, " n_graphs"]
    energy_mask: Bool[mx.array, " n_graphs"]
    forces: Float[mx.array, "n_atoms 3"]
    forces_mask: Bool[mx.array, " n_atoms"]
    stress: Float[mx.array, "n_graphs 3 3"]
    stress_mask: Bool[mx.array, " n_graphs"]
    n_atoms: Float[mx.array, " n_graphs"]
    energy_weight: Float[mx.array, " n_graphs"]
    forces_weight: Float[mx.array, " n_atoms"]
    stress_weight: Float[mx.array, " n_graphs"]
    hvp_vectors: Float[mx.array, "n_atoms 3"]
    hvps: Float[mx.array, "n_atoms 3"]
    hvps_mask: Bool[mx.array, " n_atoms"]
    hvps_weight: Float[mx.array, " n_atoms"]
    known: tuple[int, int, int, int] | None = field(default=None, compare=False)

    def arrays(self) -> dict[str, mx.array]:
        """All arrays by name, for compiled functions: see `from_arrays`."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "known"}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> Labels:
        """Labels of such arrays; how many are known only the masks tell."""
        return cls(**arrays)

    def unknown(self) -> Labels:
        """The same with every label taken for unknown."""
        # Not mx.zeros: batches are made in a thread whose streams others cannot use.
        nothing = {
            f.name: mx.array(np.zeros(getattr(self, f.name).shape, bool))
            for f in fields(self)
            if f.name.endswith("_mask")
        }
        return replace(self, **nothing, known=(0, 0, 0, 0))
