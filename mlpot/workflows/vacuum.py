"""Structures that pass for crystals but are slabs, wires or molecules in a periodic box."""

from __future__ import annotations

from typing import Any

import numpy as np
from ase import Atoms
from rich.console import Console

from mlpot.calculators import MLPotCalculator

#: How far forces of other calculators are taken to reach, Angstrom.
_REACH = 6.0


def reach(calc: Any) -> float:
    """Cutoff of a calculator, Angstrom."""
    return max(m.cutoff for m in calc.members) if isinstance(calc, MLPotCalculator) else _REACH


def widths(atoms: Atoms) -> np.ndarray:
    """Distances between opposite faces of the cell, (3,), Angstrom."""
    return 1 / np.linalg.norm(np.linalg.inv(atoms.cell.array), axis=0)


def gaps(atoms: Atoms) -> np.ndarray:
    """The widest empty layer along each cell vector, (3,), Angstrom."""
    places = np.sort(atoms.get_scaled_positions(wrap=True), axis=0)
    steps = np.diff(places, axis=0, append=places[:1] + 1)
    return steps.max(axis=0) * widths(atoms)


def tell_vacuum(atoms: Atoms, calc: Any, what: str, console: Console) -> None:
    """Warn where nothing holds the images of a structure together.

    Args:
        atoms: periodic in three directions.
        calc: whose forces they are.
        what: of which vacuum makes nonsense, such as "elastic constants".
        console: where it is said.
    """
    for axis, gap in zip("abc", gaps(atoms), strict=True):
        if gap > reach(calc):
            console.print(
                f"[yellow]Along {axis} there are {gap:.1f} Å of vacuum, more than forces reach: "
                f"{what} of a slab, wire or molecule in a box count it as crystal.[/yellow]",
                highlight=False,
            )
