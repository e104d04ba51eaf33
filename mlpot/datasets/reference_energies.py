"""Energies of isolated atoms: the zero of every element's energy scale."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from mlpot.elements import format_elements, symbol

from .frame import Frame
from .table import FrameTable

_SAME_E0 = 1e-3  # eV; larger differences between two isolated atoms of an element are an error
_RANK = 1e-8  # singular values below this times the largest count as zero


def isolated_atom_energies(frames: Iterable[Frame]) -> dict[int, float]:
    """E0 of the elements that have an isolated atom among the frames.

    An isolated atom is a frame of one atom with ``config_type=IsolatedAtom`` (or
    ``isolated_atom``), or of one atom without periodicity.

    Args:
        frames: any frames; others are passed over.

    Returns:
        E0 by atomic number, eV; empty if there are none.

    Raises:
        ValueError: two isolated atoms of an element disagree by more than 1 meV.
    """
    found: dict[int, tuple[float, str]] = {}
    for frame in frames:
        if not frame.is_isolated_atom or frame.energy is None:
            continue
        number = int(frame.numbers[0])
        if number not in found:
            found[number] = (frame.energy, frame.source)
        elif abs(found[number][0] - frame.energy) > _SAME_E0:
            raise ValueError(
                f"two energies for the isolated atom of {symbol(number)}: "
                f"{found[number][0]:.6f} eV ({found[number][1]}) and "
                f"{frame.energy:.6f} eV ({frame.source}); keep one"
            )
    return {number: found[number][0] for number in sorted(found)}


def _compositions(
    frames: Sequence[Frame], numbers: Iterable[int] | None
) -> tuple[list[int], np.ndarray, np.ndarray, np.ndarray]:
    """The compositions of frames with an energy.

    Returns:
        Elements; counts (n, n_elements), each composition once; how many frames have it, (n,);
        their mean energy, (n,).
    """
    table = FrameTable.of(frames)
    known = np.isfinite(table.energy) & ~table.isolated
    used, which, times = np.unique(
        table.composition[known], return_inverse=True, return_counts=True
    )
    energies = np.bincount(which, weights=table.energy[known], minlength=len(used)) / times
    counts = table.compositions[used]
    present = np.flatnonzero(counts.any(axis=0)).tolist()
    elements = present if numbers is None else sorted({int(z) for z in numbers})
    unknown = set(present) - set(elements)
    if unknown:
        raise ValueError(
            f"the frames hold {format_elements(unknown)}, but E0s were asked for "
            f"{format_elements(elements)} only"
        )
    return elements, counts[:, elements].astype(float), times, energies


def least_squares_E0s(
    frames: Sequence[Frame],
    numbers: Iterable[int] | None = None,
    known: Mapping[int, float] | None = None,
) -> dict[int, float]:
    """E0s that come closest to all energies by composition alone.

    Minimises the sum over frames of ``((E - sum_z n_z E0_z) / n_atoms)^2``. Where compositions
    leave combinations of elements undetermined (all frames C2H6O, say), the E0s closest to a
    common energy per atom are taken; `undetermined_elements` names what is not fixed.

    Args:
        frames: frames; isolated atoms and frames without energy do not count.
        numbers: elements that need an E0; those in the frames by default.
        known: E0s that are given; the others are fitted to what remains.

    Returns:
        E0 by atomic number, eV.

    Raises:
        ValueError: no frame has an energy, or an element is in none of those frames.
    """
    known = dict(known or {})
    elements, counts, times, energies = _compositions(frames, numbers)
    if len(energies) == 0:
        raise ValueError(
            "no frame has an energy, so E0s cannot be fitted; give E0s, or isolated atoms"
        )
    free = [i for i, z in enumerate(elements) if z not in known]
    absent = [elements[i] for i in free if not counts[:, i].any()]
    if absent:
        raise ValueError(f"no frame with an energy holds {format_elements(absent)}; give their E0s")
    n_atoms = counts.sum(axis=1)
    fixed = [i for i in range(len(elements)) if i not in free]
    rest = energies - counts[:, fixed] @ np.array([known[elements[i]] for i in fixed])
    n_free = counts[:, free].sum(axis=1)
    fitted: dict[int, float] = {}
    if free and n_free.any():
        mean = (times * rest).sum() / (times * n_free).sum()
        # Frames of one composition weigh together as much as each of them for itself.
        weight = np.sqrt(times) / n_atoms
        fractions = counts[:, free] * weight[:, None]
        target = (rest - mean * n_free) * weight
        solution = np.linalg.lstsq(fractions, target, rcond=_RANK)[0]
        fitted = {elements[i]: float(mean + x) for i, x in zip(free, solution, strict=True)}
    return {z: known[z] if z in known else fitted[z] for z in elements}


def undetermined_elements(frames: Sequence[Frame], known: Iterable[int] = ()) -> list[int]:
    """Elements whose least-squares E0 the compositions do not fix.

    Args:
        frames: as for `least_squares_E0s`.
        known: elements with a given E0.

    Returns:
        Atomic numbers, e.g. [1, 6, 8] when every frame is C2H6O; empty if all is determined.
    """
    elements, counts = _compositions(frames, None)[:2]
    free = [i for i, z in enumerate(elements) if z not in set(known)]
    if not free or len(counts) == 0:
        return []
    values, directions = np.linalg.svd(counts[:, free], full_matrices=True)[1:]
    rank = int(np.sum(values > _RANK * values[0])) if values[0] > 0 else 0
    moved = np.abs(directions[rank:]).max(axis=0, initial=0.0) > 1e-6
    return [elements[i] for i, is_moved in zip(free, moved, strict=True) if is_moved]
