"""What looks wrong in a data set: units, lost labels, overlaps. Said, never corrected."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from mlpot import graph
from mlpot.elements import COVALENT_RADII
from mlpot.units import GPA

from .frame import Frame

# Limits on what is usual for condensed matter and molecules in eV and Angstrom.
_LARGE_FORCE_RMS = 10.0
_LARGE_STRESS = 100 * GPA
_CLOSE = 0.5  # of the sum of covalent radii
_DENSE = 60.0  # Angstrom^3 per atom below which a cell is a crystal's and not a box
_SAMPLE = 200  # frames whose neighbours are looked at


def fingerprint(frame: Frame) -> bytes:
    """Digest of elements, positions, cell and periodicity, equal for equal structures."""
    digest = hashlib.blake2b(digest_size=16)
    for array in (frame.numbers, frame.positions.round(6) + 0.0, frame.cell.round(6) + 0.0):
        digest.update(array.tobytes())
    digest.update(frame.pbc.tobytes())
    return digest.digest()


def suspicions(frames: Sequence[Frame]) -> list[str]:
    """Sentences about what seems wrong; empty for ordinary data.

    Args:
        frames: frames in eV and Angstrom, or a sample of them.
    """
    structures = [f for f in frames if not f.is_isolated_atom]
    checks = (_energies, _forces, _stresses, _distances, _periodicity)
    return [text for check in checks for text in check(structures)]


def _energies(frames: list[Frame]) -> list[str]:
    known = [f for f in frames if f.energy is not None]
    groups: dict[tuple, list[Frame]] = {}
    for frame in known:
        counts = np.unique(frame.numbers, return_counts=True)
        ratio = tuple((counts[1] / frame.n_atoms).round(6))
        groups.setdefault((tuple(counts[0]), ratio), []).append(frame)
    for group in groups.values():
        sizes = np.array([f.n_atoms for f in group])
        energies = np.array([f.energy for f in group])
        if sizes.max() < 2 * sizes.min() or abs(energies.mean()) < 1e-6:
            continue
        # A total energy of one composition is about proportional to the number of atoms.
        total = np.std(energies) / abs(np.mean(energies))
        per_atom = np.std(energies / sizes) / abs(np.mean(energies / sizes))
        if total < 0.2 * per_atom:
            return [
                "energies do not grow with the number of atoms: are they per atom? "
                "Total energies are needed"
            ]
    return []


def _forces(frames: list[Frame]) -> list[str]:
    forces = [f.forces for f in frames if f.forces is not None]
    if not forces:
        return []
    found = []
    rms = float(np.sqrt(np.mean(np.concatenate(forces) ** 2)))
    if rms > _LARGE_FORCE_RMS:
        found.append(
            f"force RMS of {rms:.3g} eV/Angstrom is very large: are the data in kcal/mol "
            "(1 kcal/mol = 0.0434 eV) or Hartree/Bohr (51.4 eV/Angstrom)?"
        )
    if rms == 0:
        return [*found, "all forces are zero"]
    zero_rows = [int(np.sum(~f.any(axis=1))) for f in forces]
    pinned = sum(0 < n < len(f) for n, f in zip(zero_rows, forces, strict=True) if len(f) > 2)
    if pinned:
        found.append(
            f"forces of some atoms are exactly zero in {pinned} frames: "
            "were they removed by constraints? Such labels teach wrong forces"
        )
    net = [float(np.abs(f.sum(axis=0)).max()) for f in forces if len(f) > 1]
    loud = [x for x in net if x > 0.1 * max(rms, 1e-3)]
    if len(loud) > 0.05 * len(net):
        found.append(
            f"forces do not sum to zero in {len(loud)} frames "
            f"(by up to {max(loud):.3g} eV/Angstrom)"
        )
    return found


def _stresses(frames: list[Frame]) -> list[str]:
    known = [f.stress for f in frames if f.stress is not None]
    if not known:
        return []
    largest = float(np.abs(np.stack(known)).max())
    if largest > _LARGE_STRESS:
        return [
            f"largest stress is {largest:.3g} eV/Angstrom^3 = {largest / GPA:.3g} GPa: "
            "is it in kbar or GPa? (1 GPa = 0.00624 eV/Angstrom^3; set stress_unit)"
        ]
    return []


def _distances(frames: list[Frame]) -> list[str]:
    radii = np.array(COVALENT_RADII)
    picks = (
        np.unique(np.linspace(0, len(frames) - 1, _SAMPLE).round().astype(int)) if frames else []
    )
    for frame in (frames[int(i)] for i in picks):
        cutoff = 2 * _CLOSE * float(radii[frame.numbers].max())
        try:
            s, r, shifts = graph.neighbor_list(frame.positions, frame.cell, frame.pbc, cutoff)
        except ValueError as error:
            return [f"{frame.source or 'a frame'}: {error}"]
        vectors = frame.positions[s] + shifts @ frame.cell - frame.positions[r]
        lengths = np.linalg.norm(vectors, axis=1)
        relative = lengths / (radii[frame.numbers[s]] + radii[frame.numbers[r]])
        if len(relative) and relative.min() < _CLOSE:
            shortest = lengths[int(np.argmin(relative))]
            return [
                f"atoms as close as {shortest:.3g} Angstrom in {frame.source or 'a frame'}: "
                "are positions in nm or scaled?"
            ]
    return []


def _periodicity(frames: list[Frame]) -> list[str]:
    dense = [
        f for f in frames if not f.pbc.any() and 0 < abs(np.linalg.det(f.cell)) < _DENSE * f.n_atoms
    ]
    if dense:
        return [
            f"{len(dense)} frames have a cell as dense as a crystal but pbc is off "
            f"({dense[0].source or 'first one'}): should they be periodic?"
        ]
    return []
