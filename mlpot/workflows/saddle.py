"""From one structure to a saddle point: what a band between two structures is not needed for."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np
from ase import Atoms
from rich.console import Console

from mlpot._signals import SignalWatch

from .checks import check_count, check_positive
from .outputs import check_outputs
from .precision import check_elements, choose_method, in_float64
from .relaxation import relax_and_report
from .saddle_result import FLAT, Saddle, output_paths
from .saddle_search import Search, Surface, lowest_beside
from .stopping import Stopped
from .superposition import largest_move

#: How far from the saddle point (Angstrom, of all atoms) the ways down begin.
_DOWNHILL = 0.15
#: A stationary point with several ways down is left along the second one by so much (Angstrom), so
#: often. Searches that keep a symmetry of their start get there.
_KICK, _KICKS = 0.1, 3
#: The minima are relaxed no further: their energies are then right to far below 1 meV.
_MINIMUM_FMAX = 2e-3
#: A minimum in which an atom is farther (Angstrom) from where it was at the start is another one.
_ELSEWHERE = 0.5


def saddle(
    atoms: Atoms,
    calc: Any,
    direction: np.ndarray | None = None,
    *,
    towards: Atoms | None = None,
    method: str | None = None,
    fmax: float = 0.01,
    steps: int = 200,
    max_step: float = 0.2,
    connect: bool = True,
    seed: int = 0,
    out: str | os.PathLike[str] | None = None,
    name: str = "saddle",
    plot: bool = True,
    overwrite: bool = False,
    console: Console | None = None,
) -> Saddle:
    """Climb from a structure to a saddle point of first order.

    Follows the lowest eigenvector of the Hessian uphill and falls along all others by Newton steps
    (see `mlpot.workflows.saddle_search`). Potentials of mlpot give exact products of the Hessian
    with vectors; other calculators differences of forces. From the saddle point both ways down are
    relaxed, which tells the two minima that it joins.

    Args:
        atoms: where the search begins: a minimum, or better a guess near the saddle; not changed.
            ``FixAtoms`` is kept, other constraints are refused. The cell is kept.
        calc: ASE calculator; one of mlpot computes in float64.
        direction: (n_atoms, 3), which way to climb out of a minimum; the softest mode by default.
        towards: in place of ``direction``: another structure, such as the minimum wanted behind
            the saddle.
        method: "hessian" (exact products, the default for potentials of mlpot) or
            "displacements".
        fmax: largest force on an atom that may remain, eV/Angstrom.
        steps: at most so many.
        max_step: length of a step along the mode and beside it, all atoms together, Angstrom.
        connect: relax the two ways down.
        seed: of the vector from which the softest mode is sought.
        out: folder for the files; nothing is written by default.
        name: what file names begin with.
        plot: whether the picture is among the files.
        overwrite: whether existing files are replaced.
        console: where progress is shown; standard output by default.

    Returns:
        The saddle point, or what was reached; see ``converged``.

    Raises:
        ValueError: bad arguments, unknown elements, constraints that cannot be kept, a structure
            that falls apart, or files that exist.
        Stopped: SIGINT or SIGTERM came; ``reached`` is the result so far, which is written too.
    """
    method = choose_method(method, calc, "hessian", "displacements")
    check_elements(atoms, calc)
    way = _check(atoms, direction, towards, fmax, steps, max_step, seed)
    if out is not None:
        check_outputs(output_paths(out, name, plot, connect).values(), overwrite)
    console = Console() if console is None else console
    calc = in_float64(calc)
    moving = atoms.copy()
    moving.calc = calc
    second = sides = None
    unrelaxed = 0
    with SignalWatch() as watch:
        search = Search(Surface(moving, method == "hessian"), way, max_step, seed)
        history = _climb(search, fmax, steps, seed, console, watch)
        stopped = watch.received
        if stopped is None:
            second, _ = _second_mode(search, seed)
            try:
                if connect:
                    sides, unrelaxed = _ways_down(search, atoms, calc, fmax, console)
            except Stopped as stop:
                stopped = stop.number
    result = Saddle.make(search, history, second, sides, _done(search, fmax), method)
    result = replace(result, unrelaxed=unrelaxed)
    console.print(f"{result}.", highlight=False)
    if out is not None:
        result.write(out, name, plot, overwrite)
    if stopped is not None:
        raise Stopped(stopped, result)
    return result


def _climb(
    search: Search, fmax: float, steps: int, seed: int, console: Console, watch: SignalWatch
) -> np.ndarray:
    """Steps until a saddle point, or what ends the search; the history of `Saddle`."""
    console.print(_start(search, fmax, seed), highlight=False)
    history = [(search.point.energy, search.point.curvature, search.point.fmax)]
    kicks = 0
    with console.status("saddle") as status:
        while len(history) <= steps and watch.received is None:
            if _done(search, fmax):
                second, beside = _second_mode(search, seed)
                if second > -FLAT or kicks == _KICKS:
                    break
                kicks += 1
                search.kick(_KICK * beside)
            else:
                search.step()
            point = search.point
            history.append((point.energy, point.curvature, point.fmax))
            if not np.isfinite(history[-1]).all():
                raise ValueError(
                    f"energy or forces are not finite at step {len(history) - 1}: the search has "
                    "left what the potential was trained for; start nearer to the saddle"
                )
            status.update(
                f"climbing: step {len(history) - 1} of at most {steps}, fmax {point.fmax:.1e} of "
                f"{fmax:.1e} eV/Å, curvature {point.curvature:+.2f} eV/Å², "
                f"{point.energy - history[0][0]:+.4f} eV"
            )
    return np.array(history)


def _start(search: Search, fmax: float, seed: int) -> str:
    """What the search begins from, in one line."""
    point = search.point
    if point.curvature < 0:
        second, _ = _second_mode(search, seed)
        ways = "one direction" if second > -FLAT else "two directions or more"
        kind = f"no minimum: the energy curves down along {ways}"
    elif point.fmax > fmax:
        kind = "no minimum, but above one: relax it first if the way from a minimum is wanted"
    else:
        kind = "a minimum"
    return (
        f"Start: largest force {point.fmax:.1e} eV/Å, lowest curvature {point.curvature:+.3f} "
        f"eV/Å²: {kind}."
    )


def _done(search: Search, fmax: float) -> bool:
    return search.point.fmax <= fmax and search.point.curvature < 0


def _second_mode(search: Search, seed: int) -> tuple[float, np.ndarray]:
    """The lowest curvature beside the mode, positive at a saddle of first order, and its vector."""
    surface = search.surface
    return lowest_beside(surface.project, surface.product, search.point.mode, seed + 1)


def _ways_down(
    search: Search, origin: Atoms, calc: Any, fmax: float, console: Console
) -> tuple[list[Atoms], int]:
    """The two minima, the one nearer to the structure that the search began from first.

    And how many of them were not reached.
    """
    ends, unrelaxed = [], 0
    for sign in (1.0, -1.0):
        start = search.surface.atoms.copy()
        start.positions += sign * _DOWNHILL * search.point.mode.reshape(-1, 3)
        moved, report = relax_and_report(
            start, calc, max(fmax, _MINIMUM_FMAX), False, 500, False, console
        )
        if not report.converged:
            console.print(f"A way down is {report}.", highlight=False)
        unrelaxed += not report.converged
        ends.append(moved)
    moves = [largest_move(end, origin) for end in ends]
    if min(moves) > _ELSEWHERE:
        console.print(
            f"Neither minimum is where the search began: the nearer one is {min(moves):.2f} Å away "
            "(the atom that moved most).",
            highlight=False,
        )
    return (ends if moves[0] <= moves[1] else ends[::-1]), unrelaxed


def _check(
    atoms: Atoms,
    direction: np.ndarray | None,
    towards: Atoms | None,
    fmax: float,
    steps: int,
    max_step: float,
    seed: int,
) -> np.ndarray | None:
    """The way to climb, flat, or None."""
    check_positive("eV/Angstrom", fmax=fmax)
    check_positive("Angstrom", max_step=max_step)
    check_count("steps", steps)
    check_count("seed", seed, least=0)
    if direction is not None and towards is not None:
        raise ValueError("direction and towards are both given: give one of them")
    if towards is not None:
        if not np.array_equal(towards.numbers, atoms.numbers):
            raise ValueError(
                f"the structure is {atoms.get_chemical_formula()} and the one it goes towards "
                f"{towards.get_chemical_formula()}: give the same atoms in the same order"
            )
        from ase.geometry import find_mic

        periodic: Any = atoms.pbc
        direction = find_mic(towards.positions - atoms.positions, atoms.cell, periodic)[0]
    if direction is None:
        return None
    way = np.asarray(direction, dtype=float)
    if way.shape != (len(atoms), 3) or not np.isfinite(way).all():
        raise ValueError(
            f"direction has shape {way.shape}: give ({len(atoms)}, 3) finite numbers, one vector "
            "for each atom"
        )
    if np.linalg.norm(way) < 1e-9:
        raise ValueError("the direction is zero: give one that moves atoms")
    return way.ravel()
