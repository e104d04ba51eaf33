"""Lowest modes and spectral density of the Hessian from products with vectors alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np
import scipy.linalg
import scipy.sparse.linalg
from jaxtyping import Float64

from mlpot.graph import Graph
from mlpot.models import Potential

from .products import hvps
from .replayed import ReplayedProducts


@dataclass(frozen=True)
class Modes:
    """Some eigenpairs of the (mass-weighted) Hessian.

    Args:
        eigenvalues: (n,), ascending, eV/Angstrom^2, divided by the unit of the masses if given.
        vectors: (n, n_atoms, 3), orthonormal eigenvectors (of the mass-weighted Hessian).
        products: how many Hessian-vector products it took.
    """

    eigenvalues: Float64[np.ndarray, " n"]
    vectors: Float64[np.ndarray, "n n_atoms 3"]
    products: int


class WeightedHessian:
    """The Hessian, mass-weighted if masses are given, as a map of vectors (3 n_atoms,)."""

    def __init__(self, potential: Potential, graph: Graph, masses=None) -> None:
        self.potential, self.graph = potential, graph
        self._product = ReplayedProducts(potential)
        self.size = 3 * graph.n_atoms
        self.products = 0
        self._weights = np.ones(self.size)
        if masses is not None:
            given = np.asarray(masses, dtype=np.float64)
            if given.shape != (graph.n_atoms,) or not np.all(given > 0):
                raise ValueError(
                    f"masses have shape {given.shape}; give {graph.n_atoms} positive numbers"
                )
            self._weights = np.repeat(1.0 / np.sqrt(given), 3)

    def __call__(self, vector: np.ndarray) -> np.ndarray:
        """M^-1/2 H M^-1/2 times a vector."""
        self.products += 1
        weighted = (self._weights * vector.ravel()).reshape(-1, 3)
        direction = mx.array(weighted, dtype=self.graph.positions.dtype)
        product = self._product(self.graph, direction)
        return self._weights * np.array(product).astype(np.float64).ravel()

    def many(self, vectors: np.ndarray) -> np.ndarray:
        """The products with several vectors (n, 3 n_atoms), computed together."""
        self.products += len(vectors)
        directions = (vectors * self._weights).reshape(len(vectors), -1, 3)
        found = hvps(self.potential, self.graph, directions, chunk=len(vectors))
        return found.reshape(len(vectors), -1) * self._weights


def lowest_modes(
    potential: Potential,
    graph: Graph,
    n: int = 1,
    masses=None,
    tolerance: float = 1e-8,
    max_products: int = 10_000,
    seed: int = 0,
) -> Modes:
    """The n lowest eigenpairs of the Hessian without forming it (implicitly restarted Lanczos).

    Memory grows as n_atoms times n. Rigid translations are among the modes, with eigenvalue zero.

    Args:
        potential: the model.
        graph: one structure, in the precision of the model (float64 recommended).
        n: number of eigenpairs, less than 3 n_atoms.
        masses: (n_atoms,), for the mass-weighted Hessian; any unit.
        tolerance: relative accuracy of the eigenvalues; 0 for machine precision.
        max_products: give up after about so many Hessian-vector products.
        seed: of the starting vector.

    Returns:
        The modes.

    Raises:
        ValueError: n out of range, bad masses, or no convergence, naming what was reached.
    """
    hessian = WeightedHessian(potential, graph, masses)
    if not 1 <= n < hessian.size:
        raise ValueError(f"n is {n}; it must be 1 to {hessian.size - 1} for {graph.n_atoms} atoms")
    linalg: Any = scipy.sparse.linalg
    operator = linalg.LinearOperator((hessian.size, hessian.size), matvec=hessian, dtype=np.float64)
    basis = min(hessian.size, max(2 * n + 1, 20))
    try:
        values, vectors = linalg.eigsh(
            operator,
            k=n,
            which="SA",
            v0=np.random.default_rng(seed).normal(size=hessian.size),
            ncv=basis,
            maxiter=max(1, max_products // basis),
            tol=tolerance,
        )
    except linalg.ArpackNoConvergence as error:
        raise ValueError(
            f"{len(error.eigenvalues)} of {n} modes converged to {tolerance:g} within "
            f"{hessian.products} Hessian-vector products; allow more than "
            f"max_products={max_products}, or a larger tolerance"
        ) from error
    order = np.argsort(values)
    return Modes(values[order], vectors.T[order].reshape(n, -1, 3), hessian.products)


@dataclass(frozen=True)
class SpectralDensity:
    """Density of the Hessian's eigenvalues.

    Args:
        eigenvalues: (n_points,), eV/Angstrom^2, divided by the unit of the masses if given.
        density: (n_points,), states per unit of eigenvalue; integrates to 3 n_atoms.
        spread: (n_points,), standard error of the density from the random vectors.
    """

    eigenvalues: Float64[np.ndarray, " n_points"]
    density: Float64[np.ndarray, " n_points"]
    spread: Float64[np.ndarray, " n_points"]


def spectral_density(
    potential: Potential,
    graph: Graph,
    masses=None,
    n_vectors: int = 8,
    n_steps: int = 60,
    n_points: int = 400,
    width: float | None = None,
    seed: int = 0,
) -> SpectralDensity:
    """Density of eigenvalues of the Hessian by stochastic Lanczos quadrature.

    From each of ``n_vectors`` random vectors ``n_steps`` steps of Lanczos give a quadrature of
    the density seen by that vector; the mean over vectors, times 3 n_atoms, estimates the density,
    broadened by Gaussians. Costs n_vectors n_steps Hessian-vector products and the memory of
    n_steps vectors (Lin, Saad and Yang, SIAM Review 58, 34 (2016)).

    Args:
        potential: the model.
        graph: one structure, in the precision of the model.
        masses: (n_atoms,), for the mass-weighted Hessian.
        n_vectors: random vectors.
        n_steps: Lanczos steps from each; at most 3 n_atoms are taken.
        n_points: points of the density.
        width: standard deviation of the Gaussians; 1/100 of the spectrum by default.
        seed: of the random vectors.

    Returns:
        The density.

    Raises:
        ValueError: fewer than two vectors or steps, or bad masses.
    """
    if n_vectors < 2 or n_steps < 2:
        raise ValueError(f"n_vectors={n_vectors}, n_steps={n_steps}: give at least 2 of each")
    hessian = WeightedHessian(potential, graph, masses)
    rng = np.random.default_rng(seed)
    quadratures = _lanczos(hessian, rng.normal(size=(n_vectors, hessian.size)), n_steps)
    low = min(nodes.min() for nodes, _ in quadratures)
    high = max(nodes.max() for nodes, _ in quadratures)
    width = float(max(high - low, 1e-12) / 100 if width is None else width)
    grid = np.linspace(low - 4 * width, high + 4 * width, n_points)
    each = np.stack(
        [
            (np.exp(-0.5 * ((grid[:, None] - nodes) / width) ** 2) * weights).sum(axis=1)
            for nodes, weights in quadratures
        ]
    )
    each *= hessian.size / (width * np.sqrt(2 * np.pi))
    return SpectralDensity(grid, each.mean(axis=0), each.std(axis=0, ddof=1) / np.sqrt(n_vectors))


def _lanczos(
    hessian: WeightedHessian, starts: np.ndarray, n_steps: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Nodes and weights of the quadrature seen by each vector, with full orthogonalisation."""
    n_steps = min(n_steps, hessian.size)
    basis = [starts / np.linalg.norm(starts, axis=1, keepdims=True)]
    diagonal, beside = [], []
    for step in range(n_steps):
        new = hessian.many(basis[-1])
        diagonal.append(np.einsum("vi,vi->v", basis[-1], new))
        if step + 1 == n_steps:
            break
        for _ in range(2):  # twice is enough
            for old in basis:
                new = new - np.einsum("vi,vi->v", old, new)[:, None] * old
        length = np.linalg.norm(new, axis=1)
        # A vector whose Krylov space is exhausted goes on with zeros, which have no weight.
        ended = length < 1e-10 * np.abs(diagonal).max(axis=0)
        beside.append(np.where(ended, 0.0, length))
        basis.append(np.where(ended, 0.0, new.T / np.where(ended, 1.0, length)).T)
    found = []
    for v in range(len(starts)):
        nodes, vectors = scipy.linalg.eigh_tridiagonal(
            np.array(diagonal)[:, v], np.array(beside).reshape(-1, len(starts))[:, v]
        )
        found.append((nodes, vectors[0] ** 2))
    return found
