"""From one structure to a graph."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np

from .cell import check_cell, complete_cell
from .graph import Graph
from .host import HostGraph
from .neighbor_list import neighbor_list

_MAX_ATOMIC_NUMBER = 118


def host_structure(numbers, positions, cell, pbc, cutoff: float) -> HostGraph:
    """As `build`, but the result stays in numpy."""
    z = np.asarray(numbers)
    xyz = np.asarray(positions, dtype=np.float64)
    if z.ndim != 1 or xyz.shape != (len(z), 3):
        raise ValueError(
            f"numbers have shape {z.shape} and positions {xyz.shape}; "
            "expected (n_atoms,) and (n_atoms, 3)"
        )
    if len(z) == 0:
        raise ValueError("the structure has no atoms")
    z = z.astype(np.int64)
    if z.min() < 1 or z.max() > _MAX_ATOMIC_NUMBER:
        atom = int(np.flatnonzero((z < 1) | (z > _MAX_ATOMIC_NUMBER))[0])
        raise ValueError(
            f"atom {atom} has atomic number {z[atom]}; known elements are 1..{_MAX_ATOMIC_NUMBER}"
        )
    rows, periodic = check_cell(cell, pbc)
    senders, receivers, shifts = neighbor_list(xyz, rows, periodic, cutoff)
    return HostGraph(
        numbers=z,
        positions=xyz,
        cells=rows[None],
        node_graph=np.zeros(len(z), np.int64),
        shifts=shifts.astype(np.float64),
        senders=senders,
        receivers=receivers,
    )


def build(
    numbers,
    positions,
    cell=None,
    pbc: Any = False,
    *,
    cutoff: float,
    dtype: mx.Dtype = mx.float32,
) -> Graph:
    """The graph of one structure.

    Positions are kept as given. In float32 they lose digits far from the origin: pass them
    through `reduce_positions` first where that matters.

    Args:
        numbers: (n_atoms,) atomic numbers, 1..118.
        positions: (n_atoms, 3), Angstrom.
        cell: None, (3,) or (3, 3) lattice vectors as rows, Angstrom.
        pbc: bool or three bools.
        cutoff: Angstrom; edges join all pairs closer than this.
        dtype: precision of positions, cells and shifts.

    Returns:
        A `Graph` with ``n_graphs == 1``.

    Raises:
        ValueError: no atoms, wrong shapes, an unknown atomic number, positions that are not
            finite, a degenerate cell, or two atoms at the same place.
    """
    return host_structure(numbers, positions, cell, pbc, cutoff).to_graph(dtype)


def reduce_positions(positions, cell=None, pbc: Any = False) -> np.ndarray:
    """Equivalent positions close to the origin, so that float32 keeps its digits.

    Along periodic directions atoms are moved by lattice vectors into the cell, along open ones
    all atoms are moved together. Energies, forces and stresses are those of the input.

    Args:
        positions: (n_atoms, 3), Angstrom.
        cell: None, (3,) or (3, 3) lattice vectors as rows, Angstrom.
        pbc: bool or three bools.

    Returns:
        (n_atoms, 3) float64, Angstrom.
    """
    xyz = np.array(positions, dtype=np.float64)
    rows, periodic = check_cell(cell, pbc)
    if len(xyz) == 0:
        return xyz
    full = complete_cell(rows, periodic)
    fractional = xyz @ np.linalg.inv(full)
    fractional -= np.where(periodic, np.floor(fractional), fractional.mean(axis=0))
    return fractional @ full
