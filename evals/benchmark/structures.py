"""Clusters of atoms with an exact number of edges, and random graphs, as numpy arrays."""

from __future__ import annotations

import itertools

import numpy as np

SPACING = 2.0  # Angstrom between points of the grid
JITTER = 0.2  # largest displacement along each axis, in units of the spacing
REACH = 3  # grid steps that are searched for neighbours


def grid(n_atoms: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The first points of a cubic grid: (n_atoms, 3) integer places, jittered positions."""
    side = int(np.ceil(n_atoms ** (1 / 3) - 1e-9))
    places = np.stack(np.unravel_index(np.arange(n_atoms), (side, side, side)), axis=1)
    shifts = np.random.default_rng(seed).uniform(-JITTER, JITTER, (n_atoms, 3))
    return places, SPACING * (places + shifts)


def pairs(places: np.ndarray, positions: np.ndarray, cutoff: float):
    """Directed pairs of a grid closer than a cutoff: senders, receivers, distances."""
    side = int(places.max(initial=0)) + 1
    numbers = np.full((side + 2 * REACH,) * 3, -1)
    numbers[tuple((places + REACH).T)] = np.arange(len(places))
    found = []
    for step in itertools.product(range(-REACH, REACH + 1), repeat=3):
        # The nearest two points that are this far apart on the grid can be.
        gaps = np.maximum(np.abs(step) - 2 * JITTER, 0)
        if not any(step) or SPACING * np.linalg.norm(gaps) >= cutoff:
            continue
        senders = numbers[tuple((places + REACH + step).T)]
        receivers = np.flatnonzero(senders >= 0)
        senders = senders[receivers]
        distances = np.linalg.norm(positions[senders] - positions[receivers], axis=1)
        near = distances < cutoff
        found.append((senders[near], receivers[near], distances[near]))
    return tuple(np.concatenate(parts) for parts in zip(*found, strict=True))


def cluster(n_atoms: int, n_edges: int, seed: int) -> dict[str, np.ndarray]:
    """Atoms without periodicity, and the cutoff at which they have this many directed edges.

    Args:
        n_atoms: number of atoms.
        n_edges: even.
        seed: of the displacements.

    Returns:
        ``positions`` (n_atoms, 3), Angstrom; ``senders``, ``receivers`` (n_edges,), sorted by
        receiver; ``cutoff`` ().

    Raises:
        ValueError: there are not that many pairs, or an odd number.
    """
    places, positions = grid(n_atoms, seed)
    positions = positions.astype("f4").astype("f8")
    senders, receivers, distances = pairs(places, positions, (REACH - 0.5) * SPACING)
    if n_edges % 2 or not 0 < n_edges < len(distances):
        raise ValueError(f"n_edges={n_edges}: give an even number below {len(distances)}")
    ordered = np.sort(distances)
    cutoff = 0.5 * (ordered[n_edges - 1] + ordered[n_edges])
    return _sorted(senders[distances < cutoff], receivers[distances < cutoff], positions) | {
        "cutoff": np.array(cutoff)
    }


def large_cluster(n_atoms: int, cutoff: float, seed: int) -> dict[str, np.ndarray]:
    """As `cluster`, for a given cutoff."""
    places, positions = grid(n_atoms, seed)
    positions = positions.astype("f4").astype("f8")
    senders, receivers, _ = pairs(places, positions, cutoff)
    return _sorted(senders, receivers, positions) | {"cutoff": np.array(cutoff)}


def random_edges(n_nodes: int, n_edges: int, seed: int) -> dict[str, np.ndarray]:
    """Edges between random nodes, sorted by receiver."""
    ends = np.random.default_rng(seed).integers(0, n_nodes, (2, n_edges))
    return {"senders": ends[0].astype("i4"), "receivers": np.sort(ends[1]).astype("i4")}


def _sorted(senders: np.ndarray, receivers: np.ndarray, positions: np.ndarray) -> dict:
    order = np.lexsort((senders, receivers))
    return {
        "positions": positions.astype("f4"),
        "senders": senders[order].astype("i4"),
        "receivers": receivers[order].astype("i4"),
    }
