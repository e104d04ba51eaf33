"""Pair distances along a run, as radial distribution functions."""

from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np

from mlpot.elements import symbol
from mlpot.graph import neighbor_list


class PairDistances:
    """Histogram of distances for each pair of elements.

    Args:
        numbers: (n_atoms,) atomic numbers.
        cell: (3, 3) lattice vectors as rows.
        pbc: (3,) periodic directions.
        r_max: largest distance in Angstrom.
        n_bins: number of bins.
    """

    def __init__(self, numbers, cell, pbc, r_max: float = 6.0, n_bins: int = 120) -> None:
        self._numbers = np.asarray(numbers)
        self._cell, self._pbc = np.array(cell, dtype=np.float64), np.array(pbc, dtype=bool)
        self._r_max = r_max
        self.edges = np.linspace(0.0, r_max, n_bins + 1)
        present = [int(z) for z in np.unique(self._numbers)]
        self.counts = {pair: np.zeros(n_bins) for pair in combinations_with_replacement(present, 2)}
        self.n_frames = 0
        self._volumes = 0.0

    @property
    def centres(self) -> np.ndarray:
        """(n_bins,) middles of the bins in Angstrom."""
        return (self.edges[1:] + self.edges[:-1]) / 2

    @property
    def periodic(self) -> bool:
        """Whether there is a density, so that g(r) is defined."""
        return bool(self._pbc.all())

    def add(self, positions, cell=None) -> None:
        """Count the distances of one more frame, in its own cell if that has changed."""
        cell = self._cell if cell is None else np.asarray(cell, dtype=np.float64)
        senders, receivers, shifts = neighbor_list(positions, cell, self._pbc, self._r_max)
        vectors = positions[senders] + shifts @ cell - positions[receivers]
        self._volumes += abs(np.linalg.det(cell))
        distances = np.linalg.norm(vectors, axis=1)
        first, second = self._numbers[receivers], self._numbers[senders]
        for a, b in self.counts:
            chosen = distances[(first == a) & (second == b)]
            self.counts[a, b] += np.histogram(chosen, self.edges)[0]
        self.n_frames += 1

    def curves(self) -> dict[str, np.ndarray]:
        """(n_bins,) values by pair, such as "H-O".

        For a crystal or liquid g_ab(r) = n_ab(r) / (N_a rho_b 4 pi r^2 dr), which is 1 where
        there is no order; for a molecule the number of b around an a per Angstrom.
        """
        frames = max(self.n_frames, 1)
        shells = 4 / 3 * np.pi * np.diff(self.edges**3)
        curves = {}
        for (a, b), counts in self.counts.items():
            around = counts / frames / np.count_nonzero(self._numbers == a)
            if self.periodic:
                density = np.count_nonzero(self._numbers == b) * frames / self._volumes
                curve = around / (density * shells)
            else:
                curve = around / np.diff(self.edges)
            curves[f"{symbol(a)}-{symbol(b)}"] = curve
        return curves
