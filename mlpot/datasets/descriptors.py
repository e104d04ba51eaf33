"""How much structures are alike: descriptors that no model is needed for, and choices by them.

Around each atom i the neighbours j are counted by distance and direction,

    c_nlm,k = sum_j  e_k(Z_j) g_n(r_ij) fc(r_ij) Y_lm(r_ij / |r_ij|),    l = 0, 1, 2,

g_n Gaussians over the distance, fc = (1 + cos(pi r / cutoff)) / 2, e_k a vector for each element.
The norms over m are invariant under rotations: the diagonal of the power spectrum of Bartok, Kondor
and Csanyi, Phys. Rev. B 87, 184115 (2013). A structure has their means over its atoms, for each
component of the vectors of the central elements. These are not a model's features, which know no
difference that the model does not see: what is far from its training data another should tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Float64

from mlpot import graph

from .frame import Frame

_RADIAL = 8  # Gaussians
_ONE_HOT = 4  # up to so many elements have an axis of their own


def element_vectors(numbers: Iterable[int]) -> dict[int, np.ndarray]:
    """A vector for each element: axes of their own for up to four, else fixed random directions."""
    elements = sorted(set(numbers))
    if len(elements) <= _ONE_HOT:
        return dict(zip(elements, np.eye(len(elements)), strict=True))
    found = {}
    for z in elements:
        vector = np.random.default_rng(z).normal(size=_ONE_HOT)
        found[z] = vector / np.linalg.norm(vector)
    return found


def describe_frames(
    frames: Sequence[Frame], cutoff: float, numbers: Iterable[int]
) -> Float64[np.ndarray, "n_frames n_features"]:
    """Descriptors of structures; see the module for what they are.

    Args:
        frames: structures.
        cutoff: Angstrom.
        numbers: all elements that are to be compared, also those of other calls.

    Returns:
        (n_frames, n_features); Euclidean distances tell how unlike two structures are.
    """
    vectors = element_vectors(numbers)
    return np.stack([_describe(frame, cutoff, vectors) for frame in frames])


def _describe(frame: Frame, cutoff: float, vectors: dict[int, np.ndarray]) -> np.ndarray:
    from scipy.sparse import csr_array

    n_atoms = frame.n_atoms
    kinds = np.stack([vectors[int(z)] for z in frame.numbers])
    senders, receivers, shifts = graph.neighbor_list(frame.positions, frame.cell, frame.pbc, cutoff)
    bonds = frame.positions[senders] - frame.positions[receivers] + shifts @ frame.cell
    r = np.linalg.norm(bonds, axis=1)
    x = bonds / r[:, None]
    centres = np.linspace(0.15 * cutoff, cutoff, _RADIAL)
    width = centres[1] - centres[0]
    radial = np.exp(-0.5 * ((r[:, None] - centres) / width) ** 2)
    radial *= 0.5 * (1 + np.cos(np.pi * r / cutoff))[:, None]
    # Components of Y_0, Y_1, Y_2 up to factors: 1; x; the traceless part of x x^T.
    square = (x[:, :, None] * x[:, None, :] - np.eye(3) / 3).reshape(-1, 9)
    # Sums over the neighbours of each atom as a product with a sparse matrix of ones.
    edges = np.arange(len(r))
    summing = csr_array((np.ones(len(r)), (receivers, edges)), shape=(n_atoms, len(r)))
    features = []
    weights = radial[:, :, None] * kinds[senders][:, None, :]  # (n_edges, n, k)
    for harmonics in (np.ones((len(r), 1)), x, square):
        terms = weights[..., None] * harmonics[:, None, None, :]
        n_terms = int(np.prod(terms.shape[1:]))
        sums = (summing @ terms.reshape(len(r), n_terms)).reshape(n_atoms, *terms.shape[1:])
        # Counts keep their sign (vectors of elements may have negative components).
        norms = sums[..., 0] if sums.shape[-1] == 1 else np.sqrt((sums**2).sum(axis=-1))
        features.append(norms.reshape(n_atoms, -1))
    of_atoms = np.concatenate(features, axis=1)
    means = kinds.T @ of_atoms / n_atoms
    return np.concatenate([means.ravel(), kinds.mean(axis=0)])


def distances_to(
    points: Float64[np.ndarray, "n_points n_features"],
    others: Float64[np.ndarray, "n_others n_features"],
) -> Float64[np.ndarray, " n_points"]:
    """Distance of each point to the nearest of the others."""
    from scipy.spatial import KDTree

    return np.asarray(KDTree(others).query(points)[0])


def farthest_points(
    points: Float64[np.ndarray, "n_points n_features"],
    count: int,
    known: Float64[np.ndarray, "n_known n_features"] | None = None,
    weights: Float64[np.ndarray, " n_points"] | None = None,
) -> list[int]:
    """Points far from each other and from known ones, chosen one after another.

    Each time the point is taken with the largest weight times distance to the nearest known or
    chosen one (Gonzalez, Theor. Comput. Sci. 38, 293, 1985, where weights are 1). Points that
    coincide with a chosen one are not taken.

    Args:
        points: to choose from.
        count: how many at most.
        known: points that are there already.
        weights: not negative; 1 by default. Without known points the first choice is that of the
            largest weight, or the point farthest from the mean.

    Returns:
        Indices in the order of choice.
    """
    factor = np.ones(len(points)) if weights is None else np.asarray(weights, dtype=float)
    chosen: list[int] = []
    if known is not None and len(known):
        nearest = distances_to(points, known)
    else:
        nearest = np.full(len(points), np.inf)
        if len(points) and count > 0:
            away = np.linalg.norm(points - points.mean(axis=0), axis=1)
            chosen.append(int(np.argmax(away if weights is None else factor)))
            nearest = np.linalg.norm(points - points[chosen[0]], axis=1)
    while len(chosen) < min(count, len(points)):
        best = int(np.argmax(factor * nearest))
        if not factor[best] * nearest[best] > 0:
            break
        chosen.append(best)
        nearest = np.minimum(nearest, np.linalg.norm(points - points[best], axis=1))
    return chosen
