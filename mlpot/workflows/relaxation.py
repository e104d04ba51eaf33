"""Relaxation of atoms and cell."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from ase import Atoms
from jaxtyping import Float64
from rich.console import Console

from mlpot._signals import SignalWatch
from mlpot.units import GPA

from .checks import check_count, check_positive
from .precision import check_elements
from .stopping import Stopped

#: A structure whose volume changes by more than this factor is taken for lost.
_VOLUME_FACTOR = 4.0
#: No bond is as stiff as this (eV/Angstrom^2). Where forces over steps say so, so often in a row,
#: the optimiser has wrong curvatures: it happens where a relaxation begins near a saddle.
_STIFFEST, _STIFF_STEPS = 5000.0, 3


@dataclass(frozen=True)
class RelaxationReport:
    """How a relaxation ended.

    Args:
        converged: whether fmax was reached.
        steps: steps taken.
        fmax: largest force on an atom, constraints applied, eV/Angstrom.
        stress_max: largest component of the stress, GPa; None where the cell was kept.
        energy: eV.
        history: (steps + 1, 2) energy (eV) and largest force (eV/Angstrom) at each step; empty for
            batches.
    """

    converged: bool
    steps: int
    fmax: float
    stress_max: float | None
    energy: float
    history: Float64[np.ndarray, "_ 2"] = field(
        default_factory=lambda: np.zeros((0, 2)), repr=False, compare=False
    )

    def __str__(self) -> str:
        """One line for people."""
        state = "relaxed" if self.converged else "NOT relaxed"
        stress = "" if self.stress_max is None else f", stress {self.stress_max:.1e} GPa"
        return (
            f"{state} after {self.steps} steps: fmax {self.fmax:.1e} eV/Å{stress}, "
            f"energy {self.energy:.6f} eV"
        )


def relax_and_report(
    atoms: Atoms,
    calc: Any,
    fmax: float = 1e-3,
    cell: bool = False,
    steps: int = 500,
    symmetry: bool = False,
    console: Console | None = None,
) -> tuple[Atoms, RelaxationReport]:
    """As `relax`, with a report in place of the warning.

    Returns:
        The new structure, which holds its energy and forces, and the report.

    Raises:
        Stopped: SIGINT or SIGTERM came; ``reached`` is a list of that structure and report.
    """
    _check(atoms, calc, fmax, cell, steps, symmetry)
    console = Console() if console is None else console
    with SignalWatch() as watch:
        found = _relaxed(atoms, calc, fmax, cell, steps, symmetry, console, watch)
    if watch.received:
        raise Stopped(watch.received, [found])
    return found


def _relaxed(
    atoms: Atoms,
    calc: Any,
    fmax: float,
    cell: bool,
    steps: int,
    symmetry: bool,
    console: Console,
    watch: SignalWatch,
) -> tuple[Atoms, RelaxationReport]:
    from ase.calculators.calculator import PropertyNotImplementedError
    from ase.calculators.singlepoint import SinglePointCalculator
    from ase.constraints import FixSymmetry
    from ase.filters import FrechetCellFilter
    from ase.optimize import BFGS

    relaxed = atoms.copy()
    if symmetry:
        relaxed.set_constraint([*relaxed.constraints, FixSymmetry(relaxed)])
    relaxed.calc = calc
    if cell:
        try:
            relaxed.get_stress()
        except PropertyNotImplementedError as error:
            raise ValueError(
                "the calculator gives no stress for this structure, so the cell cannot be "
                "relaxed: keep it (cell=False)"
            ) from error
    movable: Any = FrechetCellFilter(relaxed) if cell else relaxed
    optimiser = BFGS(movable, logfile=None)
    volume = relaxed.cell.volume
    converged, history = False, []
    places, stiff = None, 0
    with console.status("relaxing") as status, warnings.catch_warnings():
        # Of scipy's logarithm of the deformation, about errors of 1e-12.
        warnings.filterwarnings("ignore", "logm result may be inaccurate", RuntimeWarning)
        for converged in optimiser.irun(fmax=fmax, steps=steps):  # noqa: B007, read at the end
            energy, largest = relaxed.get_potential_energy(), _largest_force(relaxed)
            _check_sane(relaxed, energy, largest, volume, optimiser.nsteps)
            history.append((energy, largest))
            before, places = places, movable.get_positions()
            if before is not None:
                moved, pulled = _longest(places - before), _longest(movable.get_forces())
                stiff = stiff + 1 if moved < pulled / _STIFFEST else 0
                if stiff == _STIFF_STEPS:
                    optimiser.initialize()  # forget curvatures
                    stiff = 0
            status.update(
                f"relaxing: step {optimiser.nsteps} of at most {steps}, "
                f"fmax {largest:.1e} of {fmax:.1e} eV/Å, energy {energy:.6f} eV"
            )
            if watch.received:
                break
    stress = relaxed.get_stress() if cell else None
    report = RelaxationReport(
        converged=bool(converged),
        steps=optimiser.nsteps,
        fmax=_largest_force(relaxed),
        stress_max=None if stress is None else float(np.abs(stress).max() / GPA),
        energy=float(relaxed.get_potential_energy()),
        history=np.array(history),
    )
    results = {
        "energy": report.energy,
        "forces": relaxed.get_forces(apply_constraint=False),
        "stress": stress,
    }
    relaxed.set_constraint(atoms.copy().constraints)
    relaxed.calc = SinglePointCalculator(
        relaxed, **{key: value for key, value in results.items() if value is not None}
    )
    return relaxed, report


def relax(
    atoms: Atoms,
    calc: Any,
    fmax: float = 1e-3,
    cell: bool = False,
    steps: int = 500,
    symmetry: bool = False,
    console: Console | None = None,
) -> Atoms:
    """Move atoms, and with ``cell`` the cell, to the nearest minimum of the energy.

    ASE's BFGS, for the cell in the logarithm of its deformation (FrechetCellFilter). The input
    is not changed; its constraints are kept.

    Args:
        atoms: structure to start from.
        calc: ASE calculator. A potential in float32 cannot go far below fmax 1e-3.
        fmax: goal: largest force on an atom, eV/Angstrom; with ``cell`` also the largest force
            on the cell (virial), eV.
        cell: whether the cell is relaxed too.
        steps: at most so many.
        symmetry: whether the space group of the input is kept.
        console: where progress is shown; standard output by default.

    Returns:
        The relaxed structure, which holds its energy, forces and stress. A warning is given where
        ``fmax`` was not reached.

    Raises:
        ValueError: bad arguments, unknown elements, no stress, or a structure that falls apart.
    """
    relaxed, report = relax_and_report(atoms, calc, fmax, cell, steps, symmetry, console)
    if not report.converged:
        warnings.warn(f"{report}; give more steps than {steps}", stacklevel=2)
    return relaxed


def told_unrelaxed(count: int, what: str) -> str:
    """What is said of a result that rests on relaxations which did not reach fmax."""
    return (
        f"the atoms of {count} {what} did not reach fmax, so what follows from them is off: give "
        "more steps (--steps) or a larger fmax"
    )


def _largest_force(atoms: Atoms) -> float:
    return _longest(atoms.get_forces())


def _longest(vectors: np.ndarray) -> float:
    return float(np.linalg.norm(vectors, axis=1).max())


def _check(atoms: Atoms, calc: Any, fmax: float, cell: bool, steps: int, symmetry: bool) -> None:
    check_positive("eV/Angstrom", fmax=fmax)
    check_count("steps", steps)
    check_elements(atoms, calc)
    if cell and not atoms.pbc.all():
        raise ValueError(
            f"the structure is periodic along {atoms.pbc.tolist()} only, so there is no cell to "
            "relax: keep it (without --cell; cell=False)"
        )
    if symmetry and not atoms.pbc.all():
        raise ValueError(
            f"the structure is periodic along {atoms.pbc.tolist()} only, so it has no space group "
            "to keep: relax it without symmetry"
        )


def _check_sane(atoms: Atoms, energy: float, largest: float, volume: float, step: int) -> None:
    if not np.isfinite([energy, largest]).all():
        raise ValueError(
            f"energy or forces are not finite at step {step}: the structure has left what the "
            "potential was trained for; start from a better structure"
        )
    now = atoms.cell.volume
    if volume > 0 and not volume / _VOLUME_FACTOR < now < volume * _VOLUME_FACTOR:
        raise ValueError(
            f"the cell went from {volume:.1f} to {now:.1f} Å^3 by step {step}: the potential does "
            "not hold this structure together; train it on strained cells, or keep the cell"
        )
