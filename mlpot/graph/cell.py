"""Cells with any mix of periodic directions, as three linearly independent rows."""

from __future__ import annotations

import numpy as np

#: A periodic cell whose (normalised) volume is below this is called degenerate.
DEGENERATE = 1e-8


def check_cell(cell, pbc) -> tuple[np.ndarray, np.ndarray]:
    """Cell and periodicity in one form, with the rows of open directions set to zero.

    Args:
        cell: None, (3,) lengths of an orthorhombic cell or (3, 3) lattice vectors as rows,
            Angstrom. Rows of directions that are not periodic may be anything, zero too.
        pbc: bool or three bools.

    Returns:
        (3, 3) float64 cell and (3,) bool pbc.

    Raises:
        ValueError: a wrong shape, numbers that are not finite, a periodic direction without a
            lattice vector, or periodic lattice vectors that are linearly dependent.
    """
    pbc_array = np.asarray(pbc, dtype=bool)
    if pbc_array.shape not in ((), (3,)):
        raise ValueError(f"pbc must be one bool or three, got {pbc!r}")
    pbc_array = np.broadcast_to(pbc_array, (3,)).copy()
    rows = np.zeros((3, 3)) if cell is None else np.array(cell, dtype=np.float64)
    if rows.shape == (3,):
        rows = np.diag(rows)
    if rows.shape != (3, 3):
        raise ValueError(
            f"cell has shape {rows.shape}; give three lengths (3,) "
            "or lattice vectors as rows (3, 3)"
        )
    rows[~pbc_array] = 0.0
    if not np.all(np.isfinite(rows)):
        raise ValueError(f"cell is not finite: {rows.tolist()}")
    lengths = np.linalg.norm(rows[pbc_array], axis=1)
    if np.any(lengths == 0):
        axis = "abc"[int(np.flatnonzero(pbc_array)[np.argmin(lengths)])]
        raise ValueError(
            f"the structure is periodic along {axis} but that lattice vector is zero; "
            "set the cell, or pbc=False for that direction"
        )
    if len(lengths):
        gram = rows[pbc_array] / lengths[:, None]
        if np.linalg.svd(gram, compute_uv=False)[-1] < DEGENERATE:
            raise ValueError(
                f"the periodic lattice vectors {rows[pbc_array].tolist()} are linearly dependent; "
                "correct the cell, or set pbc=False for a direction that is not periodic"
            )
    return rows, pbc_array


def complete_cell(cell: np.ndarray, pbc: np.ndarray) -> np.ndarray:
    """Replace the rows of open directions by unit vectors orthogonal to all others.

    Neighbour shifts along open directions are zero, so those rows are free to choose; orthogonal
    ones keep the cell well conditioned whatever the input holds there.

    Args:
        cell: (3, 3) lattice vectors as rows.
        pbc: (3,) bool.

    Returns:
        (3, 3) cell with full rank.
    """
    full = cell.copy()
    n_periodic = int(pbc.sum())
    if n_periodic < 3:
        basis = np.linalg.svd(cell[pbc], full_matrices=True)[2] if n_periodic else np.eye(3)
        full[~pbc] = basis[n_periodic:]
    return full
