"""One structure laid upon another, so that no atom seems to move where all of them did."""

from __future__ import annotations

from typing import Any

import numpy as np
from ase import Atoms
from ase.build import minimize_rotation_and_translation
from ase.geometry import find_mic
from jaxtyping import Float64

#: A whole shift found in another way must bring atoms nearer by this part (of squares) to be
#: taken: atoms that move by half a cell keep the direction in which they were given.
_NEARER = 1e-3


def superpose(atoms: Atoms, target: Atoms) -> float:
    """Move a structure as a whole, so that its atoms lie as near as possible to those of another.

    Molecules are shifted and turned. What is periodic, if only in part, is shifted alone, and its
    atoms are taken from the cells nearest to those of the target.

    Args:
        atoms: moved in place, constraints or not.
        target: the same atoms in the same order, cell and periodicity.

    Returns:
        How far an atom was moved at most, Angstrom; moves by lattice vectors do not count.
    """
    before = atoms.positions.copy()
    if target.pbc.any():
        shift, rest = _whole_shift(before - target.positions, target)
        atoms.positions = target.positions + rest
        return float(np.linalg.norm(shift))
    if len(atoms) == 1:
        atoms.positions = target.positions.copy()
    else:
        moved = Atoms(atoms.numbers, before)
        minimize_rotation_and_translation(Atoms(target.numbers, target.positions), moved)
        atoms.positions = moved.positions
    return float(np.linalg.norm(atoms.positions - before, axis=1).max())


def unwrap(atoms: Atoms, target: Atoms) -> None:
    """Take each atom from the periodic cell where it lies nearest to that of another structure."""
    atoms.positions = target.positions + shortest(atoms.positions - target.positions, target)


def largest_move(atoms: Atoms, target: Atoms) -> float:
    """How far the atom is from its place in another structure that moved most, Angstrom.

    Motions of all atoms together do not count, where nothing is constrained.
    """
    moved = atoms.copy()
    (unwrap if target.constraints else superpose)(moved, target)
    return float(np.linalg.norm(moved.positions - target.positions, axis=1).max())


def shortest(
    vectors: Float64[np.ndarray, "n_atoms 3"], atoms: Atoms
) -> Float64[np.ndarray, "n_atoms 3"]:
    """Vectors (Angstrom) less the lattice vectors that make them shortest."""
    periodic: Any = atoms.pbc
    return find_mic(vectors, atoms.cell, periodic)[0]


def _whole_shift(vectors: np.ndarray, atoms: Atoms) -> tuple[np.ndarray, np.ndarray]:
    """The shift (3,) of all atoms together, and what is left of the vectors without it.

    The mean of shortest vectors is wrong where the shift is of the size of the cell: some atoms
    then have their shortest vector forwards, others backwards. The mean of phases is right.
    """
    cell = atoms.cell.complete().array
    fractions = vectors @ np.linalg.inv(cell)
    mean = fractions.mean(axis=0)
    phases = np.angle(np.exp(2j * np.pi * fractions).mean(axis=0)) / (2 * np.pi)
    found = []
    for guess in (np.zeros(3), np.where(atoms.pbc, phases, mean) @ cell):
        rest = shortest(vectors - guess, atoms)
        more = rest.mean(axis=0)
        rest = rest - more
        found.append((float(np.square(rest).sum()), guess + more, rest))
    straight, other = found
    nearer = other[0] < straight[0] * (1 - _NEARER) - 1e-12
    _, shift, rest = other if nearer else straight
    return shortest(shift[None], atoms)[0], rest
