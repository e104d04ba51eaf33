"""Screened nuclear repulsion at short range (Ziegler, Biersack and Littmark, 1985)."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
from jaxtyping import Float, Int

from mlpot import kernels, nn
from mlpot.elements import COVALENT_RADII
from mlpot.units import BOHR, HARTREE

from .radial_grid import ORDER, RadialGrid
from .radial_strategy import Strategy, takes_table

_AMPLITUDES = (0.18175, 0.50986, 0.28022, 0.02817)
_DECAYS = (3.19980, 0.94229, 0.40290, 0.20162)
#: Distances below this (Angstrom) count as this: the energy stays finite and flat.
_SHORTEST = 1e-3
#: Intervals of the table of each pair of species. Terms decay within 0.03 Angstrom, intervals are a
#: tenth of that: the interpolant is right to a relative 1e-11.
_INTERVALS = 1024
#: Most pairs of species that there is a table of, 25 kB each in float32.
_MOST_PAIRS = 64


class ZBL:
    """The universal repulsion, switched on smoothly below the sum of the covalent radii.

        E = 1/2 sum_e  Z1 Z2 e^2 / (4 pi eps0 r) phi(r / a) f(r / r_max)
        a = 0.8854 a0 / (Z1^0.23 + Z2^0.23),  phi(x) = sum_k c_k exp(-d_k x)

    f is the polynomial cutoff with p = 6 and r_max the sum of the covalent radii, so value,
    slope and curvature vanish there. Where tables are faster, r times the energy of a pair is
    a quintic interpolant of class C2 (see `RadialGrid`): a handful of operations, where the formula
    needs a hundred with its derivative.

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
        self._constants = kernels.Constant(table.reshape(3, -1).T)
        self._ranges = 1.0 / table[2].ravel()
        self._cutoff = cutoff
        self._grid: RadialGrid | None = None
        self._coefficients: kernels.Constant | None = None

    def __call__(
        self,
        index: Int[mx.array, " n_atoms"],
        vectors: Float[mx.array, "n_edges 3"],
        edges: kernels.EdgeIndex,
        radial: Strategy = "exact",
    ) -> Float[mx.array, " n_atoms"]:
        """Half of every pair's energy at its receiver.

        Args:
            index: (n_atoms,) species of each atom; padding atoms may have any valid index.
            vectors: (n_edges, 3), Angstrom.
            edges: sorted by receiver.
            radial: "exact" for the formula, "table", or "auto" for what is faster.

        Returns:
            (n_atoms,), eV.
        """
        if edges.n_edges == 0:
            return mx.zeros((edges.n_nodes,), dtype=vectors.dtype)
        pair = index[edges.receivers] * self.n_species + index[edges.senders]
        r = mx.maximum(kernels.lengths(vectors), _SHORTEST)
        if self._takes_table(radial, edges.n_edges, r.dtype):
            energies = self._interpolated(r, pair)
        else:
            constants = mx.take(self._constants(r.dtype), pair, axis=0)
            energies = _times_distance(r, constants)
        return kernels.segment_sum(energies / r, edges.receivers, edges.n_nodes, edges.by_receiver)

    def _takes_table(self, radial: Strategy, n_edges: int, dtype: mx.Dtype) -> bool:
        n_pairs = self.n_species**2
        if n_pairs > _MOST_PAIRS:
            return False
        return takes_table(radial, ORDER * n_pairs * _INTERVALS, 1, n_edges, dtype, traced=False)

    def _interpolated(self, r: mx.array, pair: mx.array) -> Float[mx.array, " n_edges"]:
        """r times the energy, by the table."""
        if self._grid is None or self._coefficients is None:
            self._grid, self._coefficients = self._make_table()
        rows, powers = self._grid.locate(r, pair.astype(mx.int32))
        own = mx.take(self._coefficients(r.dtype), rows // ORDER, axis=0)
        return mx.sum(powers * own, axis=1)

    def _make_table(self) -> tuple[RadialGrid, kernels.Constant]:
        """The grid, and (n_pairs n_intervals, 6) coefficients."""
        breakpoints = sorted({x for x in self._ranges.tolist() if x < self._cutoff})
        # Ranges that lie closer than the intervals are wide need none of their own.
        apart = [x for i, x in enumerate(breakpoints) if not i or x - breakpoints[i - 1] > 1e-6]
        grid = RadialGrid(self._cutoff, _INTERVALS, apart)
        with mx.stream(mx.cpu):
            r = mx.array(np.tile(grid.knots, self.n_species**2), dtype=mx.float64)
            constants = mx.repeat(self._constants(mx.float64), len(grid.knots), axis=0)
            one = mx.ones_like(r)

            def value(r: mx.array) -> mx.array:
                return _times_distance(r, constants)

            def slope(r: mx.array) -> mx.array:
                return mx.jvp(value, [r], [one])[1][0]

            (first,), (second,) = mx.jvp(slope, [r], [one])
            shape = (self.n_species**2, -1, 1)
            found = grid.coefficients(*(a.reshape(shape) for a in (value(r), first, second)))
            return grid, kernels.Constant(np.array(found).reshape(-1, ORDER))


def _times_distance(
    r: Float[mx.array, " n"], constants: Float[mx.array, "n 3"]
) -> Float[mx.array, " n"]:
    """Half a pair's energy times the distance, by the formula: smooth down to zero."""
    x = r * constants[:, 1]
    screening = mx.zeros_like(x)
    for amplitude, decay in zip(_AMPLITUDES, _DECAYS, strict=True):
        screening = screening + amplitude * kernels.exp(-decay * x)
    switch = nn.polynomial_cutoff(r * constants[:, 2], 1.0, 6)
    return constants[:, 0] * screening * switch
