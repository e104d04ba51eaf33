"""Between ASE's structures and phonopy's."""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from ase import Atoms, units

if TYPE_CHECKING:
    from phono3py import Phono3py
    from phonopy import Phonopy


def require_phonopy(*further: str) -> None:
    """Say how to install what phonons need.

    Args:
        further: packages of the same extra that are needed too, such as "phono3py".

    Raises:
        ImportError: phonopy, seekpath or a further package is missing.
    """
    for package in ("phonopy", "seekpath", *further):
        try:
            importlib.import_module(package)
        except ImportError as error:
            raise ImportError(
                f"this needs {error.name}: install it with  pip install 'mlpot[phonons]'"
            ) from error


def supercell_matrix(supercell: Sequence[Any]) -> np.ndarray:
    """Check what a user gave as supercell.

    Args:
        supercell: three numbers of repetitions, or a 3x3 matrix of integers.

    Returns:
        (3, 3) integers.

    Raises:
        ValueError: another shape, not integers, or no positive volume.
    """
    fix = "give three numbers of at least 1, such as 3 3 3, or a 3x3 matrix of integers"
    try:
        given = np.asarray(supercell, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"supercell {supercell!r} is not made of numbers: {fix}") from error
    if given.size == 9:
        given = given.reshape(3, 3)
    elif given.shape == (3,):
        if np.any(given < 1):
            raise ValueError(f"supercell {given.tolist()} has a number below 1: {fix}")
        given = np.diag(given)
    else:
        raise ValueError(f"supercell has shape {given.shape}: {fix}")
    if not np.array_equal(given, np.rint(given)):
        raise ValueError(f"supercell {given.tolist()} is not made of integers: {fix}")
    if np.linalg.det(given) < 0.5:
        raise ValueError(f"supercell {given.tolist()} has no positive volume: {fix}")
    return np.rint(given).astype(int)


def make_phonopy(atoms: Atoms, matrix: np.ndarray, like: Phonopy | None = None) -> Phonopy:
    """Phonopy's object for a unit cell; phonopy looks for the primitive cell itself.

    Args:
        atoms: unit cell.
        matrix: (3, 3) supercell matrix, as rows of `ase.build.make_supercell`.
        like: take the primitive cell from this one, for the same crystal with another volume.
    """
    from phonopy import Phonopy

    cell = _phonopy_atoms(atoms)
    # Phonopy multiplies column vectors, ASE row vectors.
    with warnings.catch_warnings():
        # It tells users of phonopy 3 that "auto", which is meant here, is the default now.
        warnings.filterwarnings("ignore", "primitive_matrix defaulted", UserWarning)
        primitive: Any = "auto" if like is None else like.primitive_matrix
        return Phonopy(cell, supercell_matrix=matrix.T, primitive_matrix=primitive)


def make_phono3py(atoms: Atoms, matrix: np.ndarray) -> Phono3py:
    """phono3py's object for a unit cell, as `make_phonopy`."""
    from phono3py import Phono3py

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "primitive_matrix defaulted", UserWarning)
        return Phono3py(
            _phonopy_atoms(atoms), supercell_matrix=matrix.T, primitive_matrix="auto", log_level=0
        )


def _phonopy_atoms(atoms: Atoms) -> Any:
    from phonopy.structure.atoms import PhonopyAtoms

    return PhonopyAtoms(
        symbols=atoms.get_chemical_symbols(),
        cell=atoms.cell.array,
        scaled_positions=atoms.get_scaled_positions(),
        masses=atoms.get_masses(),
    )


def set_born_charges(phonopy: Phonopy, path: str | os.PathLike[str]) -> None:
    """Read phonopy's BORN file for the non-analytic term.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is not what phonopy understands for this crystal.
    """
    from phonopy.file_IO import parse_BORN

    if not os.path.isfile(path):
        raise FileNotFoundError(f"file of Born charges {str(path)!r} does not exist")
    try:
        found: Any = parse_BORN(phonopy.primitive, filename=path)
    except Exception as error:  # phonopy raises whatever it trips over
        raise ValueError(
            f"phonopy cannot read Born charges from {str(path)!r} ({type(error).__name__}: "
            f"{error}); its format is described under BORN in phonopy's manual"
        ) from error
    # Where the first line does not say it, it is e^2 / (4 pi epsilon_0) in eV Angstrom.
    phonopy.nac_params = {"factor": units.Hartree * units.Bohr} | found


def to_ase(cell: Any) -> Atoms:
    """An ASE structure, periodic in three directions, from one of phonopy."""
    return Atoms(
        numbers=cell.numbers,
        scaled_positions=cell.scaled_positions,
        cell=cell.cell,
        masses=cell.masses,
        pbc=True,
    )


def displacement_vectors(phonopy: Phonopy) -> np.ndarray:
    """Generated displacements of one atom each, (n_displacements, n_supercell, 3), Angstrom."""
    dataset: Any = phonopy.dataset
    moves = dataset["first_atoms"]
    vectors = np.zeros((len(moves), len(phonopy.supercell), 3))
    for vector, move in zip(vectors, moves, strict=True):
        vector[move["number"]] = move["displacement"]
    return vectors


def computed_force_constants(phonopy: Phonopy) -> np.ndarray:
    """The compact force constants, (n_primitive, n_supercell, 3, 3), eV/Angstrom^2."""
    force_constants = phonopy.force_constants
    assert force_constants is not None
    return force_constants


def asymmetry(phonopy: Phonopy) -> float:
    """Largest component of Phi_ij - Phi_ji^T, eV/Angstrom^2; zero for derivatives of an energy.

    Of the compact force constants: a lattice translation brings atom j of the supercell into the
    primitive cell, and i with it.
    """
    found, primitive = computed_force_constants(phonopy), phonopy.primitive
    # permutations[t][i] is where the translation t brings atom i.
    permutations = np.asarray(primitive.atomic_permutations)
    own, image = np.asarray(primitive.p2s_map), np.asarray(primitive.s2p_map)
    home = np.argmax(permutations == image, axis=0)
    rows = np.array([primitive.p2p_map[i] for i in image])
    turned = found[rows[:, None], permutations[home][:, own]]
    return float(np.abs(found.swapaxes(0, 1) - turned.swapaxes(2, 3)).max())
