"""Minimum-energy path between two structures: the nudged elastic band."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from ase import Atoms
from jaxtyping import Float64
from rich.console import Console

from mlpot.calculators import CalculatorBatch, MLPotCalculator

from .kept_forces import KeptArrays, mark_of
from .outputs import check_outputs, named_paths, write_numbers
from .precision import check_elements
from .relaxation import relax_and_report
from .structures import write_frames


@dataclass(frozen=True)
class Band:
    """Result of `neb`.

    Args:
        images: from the first to the last structure, with energies and forces.
        energies: (n_images,), eV.
        distances: (n_images,), along the path, Angstrom.
        converged: whether fmax was reached.
        steps: steps taken.
        fmax: largest force on the band, eV/Angstrom.
        climbing: whether the highest image climbed to the saddle point.
    """

    images: list[Atoms]
    energies: Float64[np.ndarray, " n_images"]
    distances: Float64[np.ndarray, " n_images"]
    converged: bool
    steps: int
    fmax: float
    climbing: bool

    @property
    def barrier(self) -> float:
        """Highest energy above that of the first image, eV."""
        return float(self.energies.max() - self.energies[0])

    @property
    def reverse_barrier(self) -> float:
        """Highest energy above that of the last image, eV."""
        return float(self.energies.max() - self.energies[-1])

    def __str__(self) -> str:
        """One line for people."""
        state = "converged" if self.converged else "NOT converged"
        return (
            f"{state} after {self.steps} steps (fmax {self.fmax:.1e} eV/Å): barrier "
            f"{self.barrier:.4f} eV forwards, {self.reverse_barrier:.4f} eV backwards"
        )

    def write(
        self,
        folder: str | os.PathLike[str],
        name: str = "neb",
        plot: bool = True,
        overwrite: bool = False,
    ) -> dict[str, Path]:
        """Write the path as extended XYZ, its energies as JSON and a picture.

        Args:
            folder: made where it does not exist.
            name: what file names begin with.
            plot: whether the picture is drawn.
            overwrite: whether existing files are replaced.

        Returns:
            The paths by "path", "json", "png", "svg".

        Raises:
            ValueError: a file exists and ``overwrite`` is False.
        """
        paths = output_paths(folder, name, plot)
        check_outputs(paths.values(), overwrite)
        Path(folder).mkdir(parents=True, exist_ok=True)
        write_frames(paths["path"], self.images)
        data = {
            "energies_eV": self.energies.tolist(),
            "distances_angstrom": self.distances.tolist(),
            "barrier_eV": self.barrier,
            "reverse_barrier_eV": self.reverse_barrier,
            "converged": self.converged,
            "fmax_eV_per_angstrom": self.fmax,
            "climbing": self.climbing,
        }
        write_numbers(paths, data, lambda path: _draw(self, path, name))
        return paths


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
        ValueError: different atoms or cells, bad numbers, unknown elements, or files that exist.
    """
    from ase.calculators.singlepoint import SinglePointCalculator
    from ase.mep import NEB
    from ase.optimize import FIRE

    _check(initial, final, calc, images, fmax, steps)
    if out is not None:
        check_outputs(output_paths(out, name, plot).values(), overwrite)
    console = Console() if console is None else console
    ends = []
    for label, end in (("first", initial), ("last", final)):
        moved = end.copy()
        if relax_ends:
            moved, report = relax_and_report(moved, calc, fmax / 3, False, steps, False, console)
            console.print(f"{label} structure {report}.", highlight=False)
        ends.append(moved)
    path = [ends[0].copy(), *(ends[0].copy() for _ in range(images)), ends[1].copy()]
    band: Any = NEB(
        path, k=spring, climb=False, method="improvedtangent", allow_shared_calculator=True
    )
    kept = _kept_band(path, calc, None if out is None else Path(out) / f"{name}-band.npz")
    band.interpolate(method="idpp", mic=bool(np.any(initial.pbc)))
    before, first = 0, 0
    if kept.found:
        band.set_positions(kept.found["positions"].reshape(-1, 3))
        before, first = int(kept.found["steps"]), int(climb and kept.found["climbing"])
        console.print(f"Going on with the band after {before} steps.", highlight=False)
    _attach(path, calc)
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
        with console.status("band") as status, _stopped(console, lambda: keep(True)):
            for converged in optimiser.irun(fmax=goal, steps=steps - optimiser.nsteps):  # noqa: B007, read at the end
                taken = before + optimiser.nsteps
                keep(False)
                highest = max(image.get_potential_energy() for image in path)
                status.update(
                    f"{'climbing' if climbing else 'relaxing'} band: step {taken} of at most "
                    f"{steps}, fmax {_largest(band):.1e} of {goal:.1e} eV/Å, highest image "
                    f"{highest - path[0].get_potential_energy():.4f} eV above the first"
                )
    largest = _largest(band)
    energies = np.array([image.get_potential_energy() for image in path])
    steps_between = [
        np.linalg.norm(_shortest(b.positions - a.positions, a)) for a, b in itertools.pairwise(path)
    ]
    for image in path:
        results = {"energy": image.get_potential_energy(), "forces": image.get_forces()}
        image.calc = SinglePointCalculator(image, **results)
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
def _stopped(console: Console, keep: Callable[[], None]) -> Iterator[None]:
    """Keeps a band whose relaxation is interrupted."""
    try:
        yield
    except KeyboardInterrupt:
        keep()
        console.print("Stopped; with the same --out the same command goes on with the band.")
        raise


def _kept_band(path: list[Atoms], calc: Any, file: Path | None) -> KeptArrays:
    """What was kept of a band of so many images between these ends."""
    return KeptArrays(file, mark_of(calc, [path[0], path[-1]], np.array([len(path)])))


def _attach(path: list[Atoms], calc: Any) -> None:
    if isinstance(calc, MLPotCalculator):
        whole = CalculatorBatch(calc, path)
        for image, share in zip(path, whole.calculators, strict=True):
            image.calc = share
        return
    for image in path:
        image.calc = calc


def _largest(band: Any) -> float:
    return float(np.linalg.norm(np.asarray(band.get_forces()), axis=1).max())


def _shortest(vectors: np.ndarray, atoms: Atoms) -> np.ndarray:
    from ase.geometry import find_mic

    periodic: Any = atoms.pbc
    return find_mic(vectors, atoms.cell, periodic)[0]


def _check(initial: Atoms, final: Atoms, calc: Any, images: int, fmax: float, steps: int) -> None:
    check_elements(initial, calc)
    if not np.array_equal(initial.numbers, final.numbers):
        raise ValueError(
            f"the first structure is {initial.get_chemical_formula()} and the last "
            f"{final.get_chemical_formula()}: give the same atoms in the same order"
        )
    if not np.allclose(initial.cell.array, final.cell.array) or np.any(initial.pbc != final.pbc):
        raise ValueError("the two structures have different cells: give both in one cell")
    if images < 1:
        raise ValueError(f"images is {images}; give at least 1 between the two structures")
    if not fmax > 0:
        raise ValueError(f"fmax is {fmax}; it must be above 0 eV/Angstrom")
    if steps < 1:
        raise ValueError(f"steps is {steps}; it must be at least 1")


def output_paths(folder: str | os.PathLike[str], name: str, plot: bool) -> dict[str, Path]:
    """Names of all files of a result."""
    return named_paths(
        folder, name, {"path": "path.extxyz", "json": "neb.json"}, "neb" if plot else None
    )


def _draw(band: Band, path: Path, title: str) -> None:
    from ase.utils.forcecurve import fit_images
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.0, 4.0), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    curve: Any = fit_images(band.images)
    axes.plot(curve.fit_path, curve.fit_energies, color="#1f5fa8")
    axes.plot(curve.path, curve.energies, "o", color="#b03030")
    axes.set_xlabel("path (Å)")
    axes.set_ylabel("energy above the first image (eV)")
    axes.set_title(f"{title}: barrier {band.barrier:.3f} eV")
    figure.savefig(path, dpi=150)
