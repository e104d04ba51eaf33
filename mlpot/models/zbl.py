"""Screened nuclear repulsion at short range (Ziegler, Biersack and Littmark, 1985)."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
from jaxtyping import Float, Int

from mlpot import kernels, nn
from mlpot.elements import COVALENT_RADII
from mlpot.units import BOHR, HARTREE

_AMPLITUDES = (0.18175, 0.50986, 0.28022, 0.02817)
_DECAYS = (3.19980, 0.94229, 0.40290, 0.20162)
#: Distances below this (Angstrom) count as this: the energy stays finite and flat.
_SHORTEST = 1e-3


class ZBL:
    """The universal repulsion, switched on smoothly below the sum of the covalent radii.

        E = 1/2 sum_e  Z1 Z2 e^2 / (4 pi eps0 r) phi(r / a) f(r / r_max)
        a = 0.8854 a0 / (Z1^0.23 + Z2^0.23),  phi(x) = sum_k c_k exp(-d_k x)

    f is the polynomial cutoff with p = 6 and r_max the sum of the covalent radii, so value,
    slope and curvature vanish there.

    Args:
        numbers: atomic numbers of the species.
        cutoff: Angstrom; r_max is never larger.
    """

    #: Number of continuous derivatives at r_max.
    smoothness = 2

    def __init__(self, numbers: list[int], cutoff: float) -> None:
        z = np.array(numbers, dtype=np.float64)
        radii = np.array([COVALENT_RADII[n] for n in numbers])
        pair = z[:, None] ** 0.23 + z[None, :] ** 0.23
        self.n_species = len(numbers)
        r_max = np.minimum(radii[:, None] + radii[None, :], cutoff)
        table = np.stack(
            [z[:, None] * z[None, :] * HARTREE * BOHR / 2, pair / (0.8854 * BOHR), 1 / r_max]
        )
        self._table = kernels.Constant(table.reshape(3, -1).T)

    def __call__(
        self,
        index: Int[mx.array, " n_atoms"],
        vectors: Float[mx.array, "n_edges 3"],
        edges: kernels.EdgeIndex,
    ) -> Float[mx.array, " n_atoms"]:
        """Half of every pair's energy at its receiver.

        Args:
            index: (n_atoms,) species of each atom; padding atoms may have any valid index.
            vectors: (n_edges, 3), Angstrom.
            edges: sorted by receiver.

        Returns:
            (n_atoms,), eV.
        """
        if edges.n_edges == 0:
            return mx.zeros((edges.n_nodes,), dtype=vectors.dtype)
        pair = index[edges.receivers] * self.n_species + index[edges.senders]
        constants = mx.take(self._table(vectors.dtype), pair, axis=0)
        r = kernels.safe_norm(vectors, _SHORTEST)
        x = r * constants[:, 1]
        screening = mx.zeros_like(x)
        for amplitude, decay in zip(_AMPLITUDES, _DECAYS, strict=True):
            screening = screening + amplitude * kernels.exp(-decay * x)
        switch = nn.polynomial_cutoff(r * constants[:, 2], 1.0, 6)
        energies = constants[:, 0] / r * screening * switch
        return kernels.segment_sum(energies, edges.receivers, edges.n_nodes, edges.by_receiver)
