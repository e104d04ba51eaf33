"""Small random structures of the species of a potential."""

from __future__ import annotations

from dataclasses import dataclass, replace

import mlx.core as mx
import numpy as np

from mlpot import graph
from mlpot.elements import COVALENT_RADII
from mlpot.models import Potential


@dataclass(frozen=True)
class Structure:
    """Atoms in numpy: (n_atoms,) numbers, (n_atoms, 3) positions, (3, 3) cell, three bools."""

    numbers: np.ndarray
    positions: np.ndarray
    cell: np.ndarray
    pbc: tuple[bool, bool, bool]

    def graph(self, potential: Potential, dtype: mx.Dtype = mx.float64) -> graph.Graph:
        """Graph with the cutoff of a potential."""
        return graph.build(
            self.numbers,
            self.positions,
            self.cell,
            np.array(self.pbc),
            cutoff=potential.cutoff,
            dtype=dtype,
        )

    def moved(self, positions: np.ndarray) -> Structure:
        """The same atoms elsewhere."""
        return replace(self, positions=positions)

    def mapped(self, matrix: np.ndarray) -> Structure:
        """Positions and cell times a (3, 3) matrix from the right: rotated or strained."""
        return replace(self, positions=self.positions @ matrix, cell=self.cell @ matrix)


_OPEN = (False, False, False)
_PERIODIC = (True, True, True)


def spacing(potential: Potential) -> float:
    """A distance of neighbours that suits the species and lies within the cutoff, Angstrom."""
    radii = [COVALENT_RADII[z] for z in potential.numbers]
    return float(min(2 * max(radii), 0.6 * potential.cutoff))


def species(potential: Potential, n: int, rng: np.random.Generator) -> np.ndarray:
    """Random numbers (n,); every species of the potential occurs where n is large enough."""
    numbers = np.array(potential.numbers)
    return rng.permutation(np.concatenate([numbers, rng.choice(numbers, n)])[:n])


def _spread(n: int, least: float, cell: np.ndarray, pbc, rng) -> np.ndarray:
    """Random positions (n, 3) in a cell that keep a distance, images included."""
    images = np.stack(np.meshgrid(*[[-1, 0, 1] if p else [0] for p in pbc]), -1).reshape(-1, 3)
    placed: list[np.ndarray] = []
    while len(placed) < n:
        for _ in range(500):
            new = rng.uniform(size=3) @ cell
            away = [np.linalg.norm(new - old + images @ cell, axis=1).min() for old in placed]
            if min(away, default=np.inf) > least:
                placed.append(new)
                break
        else:
            placed = []
            least *= 0.95
    return np.array(placed)


def cluster(potential: Potential, rng: np.random.Generator, n: int = 5) -> Structure:
    """Random molecule without a cell."""
    d = spacing(potential)
    box = np.eye(3) * d * 1.05 * n ** (1 / 3)
    xyz = _spread(n, 0.8 * d, box, _OPEN, rng)
    return Structure(species(potential, n, rng), xyz, np.zeros((3, 3)), _OPEN)


def triclinic(potential: Potential, rng: np.random.Generator, n: int = 4) -> Structure:
    """Random crystal whose lattice vectors have six different lengths and angles."""
    d = spacing(potential)
    skew = np.array([[1.0, 0.0, 0.0], [0.25, 0.95, 0.0], [-0.2, 0.3, 1.1]])
    cell = skew * 1.1 * d * n ** (1 / 3) @ rotation(rng)
    xyz = _spread(n, 0.8 * d, cell, _PERIODIC, rng)
    return Structure(species(potential, n, rng), xyz, cell, _PERIODIC)


def one_atom_cell(potential: Potential, rng: np.random.Generator) -> Structure:
    """Primitive triclinic cell that is smaller than the cutoff: neighbours are own images."""
    d = 0.95 * spacing(potential)
    cell = d * np.array([[1.0, 0.0, 0.0], [0.2, 1.05, 0.0], [0.1, -0.15, 1.1]]) @ rotation(rng)
    number = species(potential, 1, rng)
    return Structure(number, rng.uniform(-3, 3, (1, 3)), cell, _PERIODIC)


def slab(potential: Potential, rng: np.random.Generator, n: int = 4) -> Structure:
    """Layer that is periodic along a and c only; the row of b in the cell is zero."""
    d = spacing(potential)
    full = np.diag([1.0, 1.2, 1.1]) * 1.1 * d * n ** (1 / 3)
    full[2, 0] = 0.3 * d
    pbc = (True, False, True)
    xyz = _spread(n, 0.8 * d, full, pbc, rng)
    cell = full.copy()
    cell[1] = 0.0
    return Structure(species(potential, n, rng), xyz, cell, pbc)


def atoms_at(numbers, positions) -> Structure:
    """Atoms without a cell."""
    return Structure(
        np.array(numbers), np.array(positions, dtype=np.float64), np.zeros((3, 3)), _OPEN
    )


def every_kind(potential: Potential, seed: int) -> dict[str, Structure]:
    """One structure of each kind by name."""
    rng = np.random.default_rng(seed)
    return {
        "cluster": cluster(potential, rng),
        "triclinic crystal": triclinic(potential, rng),
        "one-atom cell": one_atom_cell(potential, rng),
        "slab": slab(potential, rng),
    }


def rotation(rng: np.random.Generator) -> np.ndarray:
    """Random proper rotation, (3, 3)."""
    q, r = np.linalg.qr(rng.normal(size=(3, 3)))
    q = q * np.sign(np.diag(r))
    return q * np.linalg.det(q)


def repeated(structure: Structure, counts: tuple[int, int, int]) -> Structure:
    """Supercell, image after image."""
    shifts = np.stack(np.meshgrid(*map(np.arange, counts), indexing="ij"), -1).reshape(-1, 3)
    xyz = structure.positions[None] + (shifts @ structure.cell)[:, None]
    return Structure(
        np.tile(structure.numbers, len(shifts)),
        xyz.reshape(-1, 3),
        structure.cell * np.array(counts)[:, None],
        structure.pbc,
    )
