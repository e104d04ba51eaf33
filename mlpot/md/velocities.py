"""First velocities: Maxwell-Boltzmann without motion of the whole."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

from mlpot.units import KB


def _inertia(masses: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    squares = np.einsum("n,ni,ni->", masses, offsets, offsets)
    return squares * np.eye(3) - np.einsum("n,ni,nj->ij", masses, offsets, offsets)


def _from_centre(masses: np.ndarray, positions: np.ndarray) -> np.ndarray:
    return positions - masses @ positions / masses.sum()


def degrees_of_freedom(masses, positions, *, rotation: bool) -> int:
    """Number of velocity components left once the motion of the whole is taken out.

    Args:
        masses: (n_atoms,).
        positions: (n_atoms, 3) in Angstrom.
        rotation: whether rotation is taken out too; a line of atoms has only two.

    Returns:
        At least 0. A single atom keeps its three.
    """
    n_atoms = len(masses)
    if n_atoms == 1:
        return 3
    left = 3 * n_atoms - 3
    if rotation:
        inertia = _inertia(masses, _from_centre(masses, positions))
        left -= int(np.linalg.matrix_rank(inertia, tol=1e-6 * np.trace(inertia)))
    return max(left, 0)


def maxwell_boltzmann(
    masses: Float64[np.ndarray, "n_atoms"],
    positions: Float64[np.ndarray, "n_atoms 3"],
    temperature: float,
    rng: np.random.Generator,
    *,
    rotation: bool,
) -> Float64[np.ndarray, "n_atoms 3"]:
    """Draw momenta with p_i ~ N(0, m_i k T), then take out the motion of the whole.

    What is taken out is the orthogonal projection in mass-weighted coordinates, so that the
    components left still follow the distribution: the mean kinetic energy is k T / 2 for each of
    the :func:`degrees_of_freedom`. A single atom keeps its momentum.

    Args:
        masses: in atomic mass units.
        positions: in Angstrom.
        temperature: in K.
        rng: source of the random numbers.
        rotation: take out the rotation about the centre of mass as well (for molecules).

    Returns:
        Momenta in units of ASE, sqrt(u eV).
    """
    noise = rng.standard_normal((len(masses), 3))
    momenta = noise * np.sqrt(masses * KB * temperature)[:, None]
    if len(masses) == 1:
        return momenta
    momenta = momenta - masses[:, None] * momenta.sum(axis=0) / masses.sum()
    if rotation:
        offsets = _from_centre(masses, positions)
        inertia = _inertia(masses, offsets)
        angular = np.cross(offsets, momenta).sum(axis=0)
        omega = np.linalg.pinv(inertia, rcond=1e-6, hermitian=True) @ angular
        momenta = momenta - masses[:, None] * np.cross(omega, offsets)
    return momenta
