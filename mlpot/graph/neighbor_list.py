"""Neighbour lists with cell shifts, through vesin, for any cell and periodicity."""

from __future__ import annotations

import numpy as np
import vesin
from jaxtyping import Int64

from .cell import check_cell, complete_cell

# vesin's cell list divides by zero (and ends the process) when one direction holds about a
# hundred thousand cells and the others few.
_MAX_CELLS_PER_AXIS = 20_000

# Below this many atoms, starting threads takes longer than the work.
_THREADS_FROM = 1000

_EMPTY = (np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, 3), np.int64))


def _close_gaps(positions: np.ndarray, direction: np.ndarray, cutoff: float) -> np.ndarray:
    """Shorten empty stretches along an open direction without changing any neighbour.

    Atoms on the two sides of a gap wider than the cutoff are never neighbours, so the gap may
    as well be just a little wider than the cutoff.
    """
    height = positions @ direction
    order = np.argsort(height, kind="stable")
    gaps = np.diff(height[order])
    excess = np.concatenate([[0.0], np.cumsum(np.maximum(gaps - 1.5 * cutoff, 0.0))])
    moved = positions.copy()
    moved[order] -= excess[:, None] * direction
    return moved


def _bounded(positions, cell, pbc, cutoff: float) -> np.ndarray:
    """Positions whose extent is one that vesin can divide into cells of the cutoff."""
    limit = _MAX_CELLS_PER_AXIS * cutoff
    heights = 1.0 / np.linalg.norm(np.linalg.inv(cell), axis=0)
    for axis in range(3):
        if pbc[axis]:
            if heights[axis] > limit:
                raise ValueError(
                    f"the cell is {heights[axis]:.3g} Angstrom wide along {'abc'[axis]}, more than "
                    f"{_MAX_CELLS_PER_AXIS} times the cutoff {cutoff}; set pbc=False along it"
                )
        elif np.ptp(positions @ cell[axis]) > limit:
            positions = _close_gaps(positions, cell[axis], cutoff)
    return positions


def _sorted(senders, receivers, shifts, n_atoms: int):
    """Order by receiver, then sender, then shift: the same on every run and machine."""
    low = shifts.min(axis=0)
    spans = [int(s) for s in shifts.max(axis=0) - low + 1]
    if n_atoms * n_atoms * spans[0] * spans[1] * spans[2] < 2**62:
        key = receivers * n_atoms + senders
        for axis in range(3):
            key = key * spans[axis] + (shifts[:, axis] - low[axis])
        order = np.argsort(key)
    else:
        order = np.lexsort((shifts[:, 2], shifts[:, 1], shifts[:, 0], senders, receivers))
    return senders[order], receivers[order], shifts[order]


def neighbor_list(
    positions, cell, pbc, cutoff: float
) -> tuple[
    Int64[np.ndarray, " n_edges"], Int64[np.ndarray, " n_edges"], Int64[np.ndarray, "n_edges 3"]
]:
    """All directed pairs of atoms closer than a cutoff, periodic images included.

    Edge e stands for the vector
    ``positions[senders[e]] + shifts[e] @ cell - positions[receivers[e]]``, for the positions as
    given (atoms may lie anywhere, also far outside the cell).

    Args:
        positions: (n_atoms, 3), Angstrom.
        cell: None, (3,) or (3, 3) lattice vectors as rows, Angstrom; rows of open directions
            are ignored.
        pbc: bool or three bools.
        cutoff: Angstrom, positive.

    Returns:
        senders (n_edges,), receivers (n_edges,) and integer shifts (n_edges, 3), sorted by
        receiver, then sender, then shift. Shifts along open directions are zero.

    Raises:
        ValueError: positions with a wrong shape or not finite, a cutoff that is not positive, a
            degenerate cell, or two atoms at the same place.
    """
    xyz = np.array(positions, dtype=np.float64)
    if xyz.ndim != 2 or xyz.shape[1] != 3:
        raise ValueError(f"positions have shape {xyz.shape}; expected (n_atoms, 3)")
    if not np.all(np.isfinite(xyz)):
        atom = int(np.flatnonzero(~np.isfinite(xyz).all(axis=1))[0])
        raise ValueError(f"position of atom {atom} is not finite: {xyz[atom].tolist()}")
    if not (np.isfinite(cutoff) and cutoff > 0):
        raise ValueError(f"cutoff must be a positive length in Angstrom, got {cutoff!r}")
    rows, periodic = check_cell(cell, pbc)
    if len(xyz) == 0:
        return _EMPTY
    full = complete_cell(rows, periodic)
    # vesin is right for atoms outside the cell, but slow where some directions are open.
    wraps = np.where(periodic, np.floor(xyz @ np.linalg.inv(full)), 0.0)
    xyz = _bounded(xyz - wraps @ full, full, periodic, float(cutoff))
    receivers, senders, shifts, distances = vesin.NeighborList(
        cutoff=float(cutoff), full_list=True, n_threads=1 if len(xyz) < _THREADS_FROM else 0
    ).compute(points=xyz, box=full, periodic=periodic, quantities="ijSd")
    if len(distances) == 0:
        return _EMPTY
    if distances.min() == 0.0:
        pair = int(np.argmin(distances))
        raise ValueError(
            f"atoms {int(receivers[pair])} and {int(senders[pair])} are at the same place "
            f"(shift {shifts[pair].tolist()}); remove the duplicate"
        )
    senders, receivers = senders.astype(np.int64), receivers.astype(np.int64)
    wraps = wraps.astype(np.int64)
    shifts = shifts.astype(np.int64) + wraps[receivers] - wraps[senders]
    return _sorted(senders, receivers, shifts, len(xyz))
