"""Minimum-energy path between two structures: the nudged elastic band."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from ase import Atoms
from ase.constraints import FixAtoms
from rich.console import Console

from mlpot._signals import SignalWatch

from .checks import check_count, check_positive
from .kept_forces import KeptArrays, mark_of
from .neb_result import Band, output_paths
from .outputs import check_outputs
from .precision import check_elements
from .relaxation import relax_and_report
from .stopping import Stopped
from .superposition import largest_move, shortest, superpose, unwrap

#: Structures whose atoms lie within this (Angstrom) are the same.
_SAME = 1e-3
#: The same for relaxed ones, which end where their forces are small.
_SAME_MINIMUM = 0.02
#: Motions as a whole by more (Angstrom) are told.
_TOLD = 0.01


def neb(
    initial: Atoms,
    final: Atoms,
    calc: Any,
    images: int = 7,
    *,
    climb: bool = True,
    relax_ends: bool = True,
    fmax: float = 0.03,
    steps: int = 500,
    spring: float = 0.1,
    out: str | os.PathLike[str] | None = None,
    name: str = "neb",
    plot: bool = True,
    overwrite: bool = False,
    console: Console | None = None,
) -> Band:
    """Minimum-energy path between two structures with ASE's nudged elastic band.

    The band starts from an interpolation of pair distances (IDPP) and is relaxed by FIRE with
    improved tangents; with ``climb`` the highest image then goes on to the saddle point. With
    potentials of mlpot all images are one batch. With ``out``, the band is kept there until the
    end: a run that was stopped goes on from it, and ``steps`` counts anew.

    Without constraints, the last structure is moved as a whole onto the first (molecules are also
    turned; what is periodic is not): images would else be spent on a way that costs no energy.
    Atoms go the shortest way across periodic boundaries.

    Args:
        initial: first structure; constraints are kept.
        final: last structure, the same atoms in the same order.
        calc: ASE calculator.
        images: number of moving images between the two.
        climb: whether the highest image climbs.
        relax_ends: relax the two structures first.
        fmax: largest force on the band that may remain, eV/Angstrom.
        steps: at most so many.
        spring: constant of the springs, eV/Angstrom^2.
        out: folder for the files; nothing is written by default.
        name: what file names begin with.
        plot: whether the picture is among the files.
        overwrite: whether existing files are replaced.
        console: where progress is shown; standard output by default.

    Returns:
        The band; see ``converged``.

    Raises:
        ValueError: different atoms or cells, two structures that are the same (or relax to the
            same one), bad numbers, unknown elements, or files that exist.
        Stopped: SIGINT or SIGTERM came; with ``out`` the band is kept.
    """
    from ase.calculators.singlepoint import SinglePointCalculator
    from ase.optimize import FIRE

    from .elastic_band import ElasticBand, interpolate_distances

    _check(initial, final, calc, images, fmax, steps)
    if out is not None:
        check_outputs(output_paths(out, name, plot).values(), overwrite)
    console = Console() if console is None else console
    ends: list[Atoms] = []
    for label, end in (("first", initial), ("last", final)):
        moved = end.copy()
        if relax_ends:
            moved, report = relax_and_report(moved, calc, fmax / 3, False, steps, False, console)
            console.print(f"{label} structure {report}.", highlight=False)
        ends.append(moved)
    if relax_ends:
        _check_apart(ends[0], ends[1], _SAME_MINIMUM, "relax to the same minimum")
    turning = _lay_upon(ends[0], ends[1], console)
    path = [ends[0].copy(), *(ends[0].copy() for _ in range(images)), ends[1].copy()]
    kept = _kept_band(path, calc, None if out is None else Path(out) / f"{name}-band.npz")
    interpolate_distances(path, turning)
    band: Any = ElasticBand(path, calc, spring, turning)
    before, first = 0, 0
    if kept.found:
        band.set_positions(kept.found["positions"].reshape(-1, 3))
        before, first = int(kept.found["steps"]), int(climb and kept.found["climbing"])
        console.print(f"Going on with the band after {before} steps.", highlight=False)
    silent: Any = None
    optimiser = FIRE(band, logfile=silent)
    converged, taken, climbing = False, before, False

    def keep(at_once: bool) -> None:
        kept.keep(
            at_once,
            positions=band.get_positions(),
            steps=np.array(taken),
            climbing=np.array(climbing),
        )

    for stage, climbing in list(enumerate([False, True] if climb else [False]))[first:]:
        band.climb = climbing
        # The climb starts from a band that roughly lies on the path.
        goal = fmax if stage == int(climb) else max(5 * fmax, 0.1)
        with (
            console.status("band") as status,
            _keeping(lambda: keep(True)),
            SignalWatch() as watch,
        ):
            for converged in optimiser.irun(fmax=goal, steps=steps - optimiser.nsteps):  # noqa: B007, read at the end
                taken = before + optimiser.nsteps
                keep(False)
                status.update(
                    f"{'climbing' if climbing else 'relaxing'} band: step {taken} of at most "
                    f"{steps}, fmax {_largest(band):.1e} of {goal:.1e} eV/Å, highest image "
                    f"{band.height:.4f} eV above the first"
                )
                if watch.received:
                    raise Stopped(watch.received)
    largest = _largest(band)
    steps_between = [
        np.linalg.norm(shortest(b.positions - a.positions, a)) for a, b in itertools.pairwise(path)
    ]
    path[0].calc = path[-1].calc = calc
    for image in path:
        results = {"forces": image.get_forces(), "energy": image.get_potential_energy()}
        image.calc = SinglePointCalculator(image, **results)
    energies = np.array([image.get_potential_energy() for image in path])
    result = Band(
        path,
        energies,
        np.concatenate([[0.0], np.cumsum(steps_between)]),
        bool(converged),
        taken,
        largest,
        climb,
    )
    console.print(f"{result}.", highlight=False)
    if out is not None:
        result.write(out, name, plot, overwrite)
    kept.remove()
    return result


@contextmanager
def _keeping(keep: Callable[[], None]) -> Iterator[None]:
    """Keeps a band whose relaxation is interrupted."""
    try:
        yield
    except KeyboardInterrupt:
        keep()
        raise


def _kept_band(path: list[Atoms], calc: Any, file: Path | None) -> KeptArrays:
    """What was kept of a band of so many images between these ends."""
    return KeptArrays(file, mark_of(calc, [path[0], path[-1]], np.array([len(path)])))


def _lay_upon(first: Atoms, last: Atoms, console: Console) -> bool:
    """Move the last structure onto the first; whether images may be turned, too."""
    if first.constraints:
        unwrap(last, first)
        return False
    last.set_constraint()
    moved = superpose(last, first)
    turning = not first.pbc.any()
    if moved > _TOLD:
        how = "shifted and turned, by up to" if turning else "shifted by"
        console.print(
            f"The last structure was {how} {moved:.2f} Å as a whole, onto the first.",
            highlight=False,
        )
    return turning


def _largest(band: Any) -> float:
    return float(np.linalg.norm(np.asarray(band.get_forces()), axis=1).max())


def _check(initial: Atoms, final: Atoms, calc: Any, images: int, fmax: float, steps: int) -> None:
    check_elements(initial, calc)
    if not np.array_equal(initial.numbers, final.numbers):
        raise ValueError(
            f"the first structure is {initial.get_chemical_formula()} and the last "
            f"{final.get_chemical_formula()}: give the same atoms in the same order"
        )
    if not np.allclose(initial.cell.array, final.cell.array) or np.any(initial.pbc != final.pbc):
        raise ValueError("the two structures have different cells: give both in one cell")
    check_count("images", images)
    check_positive("eV/Angstrom", fmax=fmax)
    check_count("steps", steps)
    _check_apart(initial, final, _SAME, "are the same")
    shifts = np.linalg.norm(shortest(final.positions - initial.positions, initial), axis=1)
    for constraint in initial.constraints:
        if isinstance(constraint, FixAtoms):
            fixed = constraint.get_indices()
            worst = int(fixed[np.argmax(shifts[fixed])])
            if shifts[worst] > _SAME:
                raise ValueError(
                    f"atom {worst} is fixed, but lies {shifts[worst]:.3f} Å away in the last "
                    "structure: put it in the same place, or do not fix it"
                )


def _check_apart(first: Atoms, last: Atoms, least: float, what: str) -> None:
    """Refuse two ends without a way between them, but for a shift or rotation of all atoms."""
    largest = largest_move(last, first)
    if largest < least:
        raise ValueError(
            f"the first and the last structure {what} (no atom moves by more than {largest:.1e} "
            "Å): there is no path between them; give two different minima"
        )
