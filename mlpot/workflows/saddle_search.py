"""The search behind `saddle`: follow the lowest mode uphill, fall along all others.

At each point Lanczos gives the lowest eigenvector v of the Hessian, and the step has two parts:

    along v       + |g_v / lambda|, uphill         (Newton's step where lambda < 0)
    beside v      - H^-1 g, downhill               (by conjugate gradients, within a trust radius)

Both need products of the Hessian with vectors alone, so the cost of a step grows as that of forces.
Energies are compared with the quadratic model, and the trust radius follows (the trust-region
method of Steihaug, SIAM J. Numer. Anal. 20, 626 (1983), on the complement of the mode).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from ase import Atoms

from mlpot.md.ase_bridge import fixed_atoms

Map = Callable[[np.ndarray], np.ndarray]

#: Displacement for products by differences of forces, Angstrom.
DIFFERENCE = 1e-3
_MOST_PRODUCTS = 60
#: The shortest trust radius, as a part of the longest move: energies may be noisier than so short
#: a step changes them, and then forces alone decide.
_SHORTEST = 1 / 64


class Surface:
    """Energy, gradient and Hessian of the atoms that may move, rigid motions left out.

    Args:
        atoms: structure with a calculator; it is moved. ``FixAtoms`` is kept.
        exact: whether the calculator gives exact products; differences of forces otherwise.

    Attributes:
        products: how many products of the Hessian there were.
        evaluations: how many energies with forces.

    Raises:
        ValueError: another constraint, or nothing that may move.
    """

    def __init__(self, atoms: Atoms, exact: bool) -> None:
        self.atoms, self._exact = atoms, exact
        self._free = ~fixed_atoms(atoms, "a saddle search keeps FixAtoms only, not {}")
        if not self._free.any():
            raise ValueError("all atoms are fixed: there is nothing to move")
        self.products = self.evaluations = 0
        self._rigid = self._rigid_motions()

    def _rigid_motions(self) -> np.ndarray:
        """Orthonormal translations, and rotations where nothing is periodic, (n, 3 n_atoms)."""
        if not self._free.all():
            return np.zeros((0, 3 * len(self.atoms)))
        motions = [np.tile(axis, (len(self.atoms), 1)) for axis in np.eye(3)]
        if not self.atoms.pbc.any():
            arms = self.atoms.positions - self.atoms.positions.mean(axis=0)
            motions += [np.cross(axis, arms) for axis in np.eye(3)]
        vectors = np.array(motions).reshape(len(motions), -1)
        # A linear molecule has one rotation less.
        _, sizes, basis = np.linalg.svd(vectors, full_matrices=False)
        return basis[sizes > 1e-6 * sizes[0]]

    def project(self, vector: np.ndarray) -> np.ndarray:
        """What of a vector (3 n_atoms,) moves free atoms against each other."""
        moved = np.where(np.repeat(self._free, 3), vector.ravel(), 0.0)
        return moved - self._rigid.T @ (self._rigid @ moved)

    def move(self, positions: np.ndarray) -> tuple[float, np.ndarray]:
        """Go to positions (n_atoms, 3); energy (eV) and gradient (3 n_atoms,), projected."""
        self.atoms.positions = positions
        self._rigid = self._rigid_motions()
        self.evaluations += 1
        forces = self.atoms.get_forces(apply_constraint=False)
        return float(self.atoms.get_potential_energy()), self.project(-np.asarray(forces))

    def product(self, vector: np.ndarray) -> np.ndarray:
        """Hessian at the present positions times a projected vector (3 n_atoms,)."""
        self.products += 1
        direction = self.project(vector).reshape(-1, 3)
        calc: Any = self.atoms.calc
        if self._exact:
            return self.project(calc.get_hvp(self.atoms, direction))
        length = np.linalg.norm(direction)
        if length == 0:
            return np.zeros(direction.size)
        forces = []
        for sign in (1.0, -1.0):
            moved = self.atoms.copy()
            moved.positions += sign * DIFFERENCE / length * direction
            moved.calc = calc
            forces.append(np.asarray(moved.get_forces(apply_constraint=False)))
        return self.project((forces[1] - forces[0]) * length / (2 * DIFFERENCE))


def lowest_mode(
    product: Map, start: np.ndarray, tolerance: float = 0.02, most: int = _MOST_PRODUCTS
) -> tuple[float, np.ndarray, float]:
    """Lowest eigenpair of a symmetric map by Lanczos, good enough to follow.

    Args:
        product: the map of vectors (n,).
        start: (n,), not zero: the better it is, the fewer products are needed.
        tolerance: goal for the residual over the largest curvature that was met.
        most: products at most.

    Returns:
        Eigenvalue, normalised eigenvector (n,) with a positive overlap with ``start``, residual.
    """
    basis = [start / np.linalg.norm(start)]
    diagonal: list[float] = []
    beside: list[float] = []
    while True:
        new = product(basis[-1])
        diagonal.append(float(basis[-1] @ new))
        for _ in range(2):  # twice is enough
            for old in basis:
                new = new - (old @ new) * old
        length = float(np.linalg.norm(new))
        matrix = np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1)
        values, vectors = np.linalg.eigh(matrix)
        residual = length * abs(vectors[-1, 0])
        scale = max(np.abs(values).max(), 1e-12)
        if residual < tolerance * scale or length < 1e-9 * scale or len(basis) >= most:
            mode = np.array(basis).T @ vectors[:, 0]
            mode *= np.sign(mode @ start) or 1.0
            return float(values[0]), mode / np.linalg.norm(mode), residual
        beside.append(length)
        basis.append(new / length)


def lowest_beside(
    project: Map, product: Map, mode: np.ndarray, seed: int
) -> tuple[float, np.ndarray]:
    """The lowest eigenpair beside a known one.

    Args:
        project: takes out of a vector (n,) what does not count.
        product: the symmetric map of projected vectors.
        mode: (n,), normalised and projected.
        seed: of the vector that the search starts from.

    Returns:
        Eigenvalue and normalised eigenvector (n,); infinity where nothing is left.
    """

    def beside(v: np.ndarray) -> np.ndarray:
        inner = project(v)
        return inner - (mode @ inner) * mode

    drawn = np.random.default_rng(seed).normal(size=mode.size)
    # Twice here, and in every product: what rounding leaves of the mode must not grow.
    start = beside(beside(drawn))
    if np.linalg.norm(start) < 1e-9 * np.linalg.norm(drawn):
        return np.inf, project(drawn)
    value, vector, _ = lowest_mode(lambda v: beside(product(beside(v))), start, 1e-3, 200)
    return value, vector


def descend(product: Map, gradient: np.ndarray, radius: float, tolerance: float) -> np.ndarray:
    """Step to the minimum of the quadratic model within a radius (Steihaug's method).

    Args:
        product: the Hessian as a map of vectors (n,).
        gradient: (n,).
        radius: Euclidean length of the step at most.
        tolerance: how much smaller the residual gets than the gradient.
    """
    step, residual = np.zeros_like(gradient), -gradient
    direction = residual
    goal = tolerance * np.linalg.norm(gradient)
    for _ in range(_MOST_PRODUCTS):
        if np.linalg.norm(residual) <= goal:
            break
        along = product(direction)
        curvature = direction @ along
        square = residual @ residual
        if curvature <= 0:
            return _to_boundary(step, direction, radius)
        factor = square / curvature
        if np.linalg.norm(step + factor * direction) >= radius:
            return _to_boundary(step, direction, radius)
        step = step + factor * direction
        residual = residual - factor * along
        direction = residual + (residual @ residual) / square * direction
    return step


def _to_boundary(step: np.ndarray, direction: np.ndarray, radius: float) -> np.ndarray:
    a, b, c = direction @ direction, 2 * step @ direction, step @ step - radius**2
    return step + (-b + np.sqrt(max(b * b - 4 * a * c, 0.0))) / (2 * a) * direction


@dataclass
class Point:
    """Where a search is.

    Args:
        energy: eV.
        gradient: (3 n_atoms,), eV/Angstrom, projected.
        curvature: along the mode, eV/Angstrom^2.
        mode: (3 n_atoms,), normalised.
    """

    energy: float
    gradient: np.ndarray
    curvature: float
    mode: np.ndarray

    @property
    def fmax(self) -> float:
        """Largest force on an atom, eV/Angstrom."""
        return float(np.linalg.norm(self.gradient.reshape(-1, 3), axis=1).max())


class Search:
    """Steps towards a saddle point of first order.

    Args:
        surface: the energy.
        direction: (3 n_atoms,) where to start climbing; None for the lowest mode.
        max_step: the longest move along the mode and beside it, Angstrom (of all atoms together).
        seed: of the vector that the first search for the lowest mode starts from.
    """

    def __init__(
        self, surface: Surface, direction: np.ndarray | None, max_step: float, seed: int
    ) -> None:
        self.surface, self._max_step = surface, max_step
        self._radius = max_step
        rng = np.random.default_rng(seed)
        self._given = None if direction is None else surface.project(direction)
        start = rng.normal(size=3 * len(surface.atoms)) if direction is None else direction
        self._start = surface.project(start)
        if np.linalg.norm(self._start) < 1e-9:
            raise ValueError("the direction moves nothing but fixed atoms or all atoms alike")
        self.point = self._look(*surface.move(surface.atoms.positions.copy()))

    def _look(self, energy: float, gradient: np.ndarray) -> Point:
        curvature, mode, _ = lowest_mode(self.surface.product, self._start)
        if curvature >= 0 and self._given is not None:
            # Before the ridge: the given way, not the softest one.
            mode = self._given / np.linalg.norm(self._given)
            curvature = float(mode @ self.surface.product(mode))
        else:
            self._start = mode
        return Point(energy, gradient, curvature, mode)

    def step(self) -> None:
        """One step; a step that the model did not foresee is taken back and the radius halved."""
        point, surface = self.point, self.surface
        shortest = _SHORTEST * self._max_step
        while True:
            move = self._move(point)
            predicted = point.gradient @ move + 0.5 * move @ surface.product(move)
            before = surface.atoms.positions.copy()
            energy, gradient = surface.move(before + move.reshape(-1, 3))
            error = abs(energy - point.energy - predicted)
            allowed = max(abs(predicted), 1e-6)
            if error < 2.0 * allowed or self._radius <= shortest:
                break
            surface.move(before)
            self._radius = max(0.5 * self._radius, shortest)
        if error < 0.3 * allowed:
            self._radius = min(1.5 * self._radius, self._max_step)
        elif error > 0.8 * allowed:
            self._radius = max(0.5 * self._radius, shortest)
        self.point = self._look(energy, gradient)

    def kick(self, move: np.ndarray) -> None:
        """Move by (3 n_atoms,), whatever the energy, and follow the lowest mode from there."""
        atoms = self.surface.atoms
        self._given = None
        self.point = self._look(*self.surface.move(atoms.positions + move.reshape(-1, 3)))

    def _move(self, point: Point) -> np.ndarray:
        mode, slope = point.mode, float(point.gradient @ point.mode)
        if point.curvature < 0:
            climb = float(np.clip(slope / -point.curvature, -self._radius, self._radius))
        else:
            # Along what was given, or uphill; from a minimum, without a slope, along the mode.
            known = self._given is None and abs(slope) > 1e-6
            climb = self._radius * (float(np.sign(slope)) if known else 1.0)

        def beside(vector: np.ndarray) -> np.ndarray:
            return vector - (mode @ vector) * mode

        down = beside(point.gradient)
        length = float(np.linalg.norm(down))
        if length == 0:
            return climb * mode
        fall = descend(
            lambda v: beside(self.surface.product(beside(v))),
            down,
            self._radius,
            min(0.1, np.sqrt(length)),
        )
        return climb * mode + beside(fall)
