"""MD17 and revised MD17 archives: one molecule, many frames."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from .ase_frames import Units
from .frame import Frame

# Names in rMD17 and in MD17, in this order: numbers, positions, energies, forces.
_LAYOUTS = (("nuclear_charges", "coords", "energies", "forces"), ("z", "R", "E", "F"))


def read_npz(path: Path, units: Units) -> Iterator[Frame]:
    """Frames of an ``.npz`` file of MD17 (z, R, E, F) or rMD17 (nuclear_charges, coords, ...).

    Args:
        path: the file.
        units: ``energy_unit`` must be named: such files do not say theirs.

    Raises:
        ValueError: no energy unit, unknown arrays, wrong shapes, or numbers that are not finite.
    """
    if units.energy_unit is None:
        raise ValueError(
            f"{path}: npz files do not say their units; set energy_unit "
            "('kcal/mol' for MD17 and rMD17)"
        )
    factors = units.factors()
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in archive.files}
    except (OSError, ValueError, KeyError, EOFError) as error:
        raise ValueError(f"{path}: not a readable npz archive: {error}") from None
    layout = next((names for names in _LAYOUTS if set(names[:2]) <= set(arrays)), None)
    if layout is None:
        raise ValueError(
            f"{path}: arrays {sorted(arrays)} are neither those of MD17 ({', '.join(_LAYOUTS[1])}) "
            f"nor of rMD17 ({', '.join(_LAYOUTS[0])})"
        )
    numbers, positions = arrays[layout[0]], arrays[layout[1]]
    energies, forces = (arrays.get(name) for name in layout[2:])
    if energies is not None:
        energies = energies.reshape(-1)
    for name, array in (("energies", energies), ("forces", forces)):
        if array is not None and len(array) != len(positions):
            raise ValueError(f"{path}: {len(array)} {name} for {len(positions)} positions")
    if len(positions) == 0:
        raise ValueError(f"{path} holds no frames")
    for index in range(len(positions)):
        yield Frame(
            numbers=numbers,
            positions=positions[index] * factors["length"],
            energy=None if energies is None else float(energies[index]) * factors["energy"],
            forces=None if forces is None else forces[index] * factors["forces"],
            source=f"{path}:{index}",
        )
