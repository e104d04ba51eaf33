"""From a structure and a calculator to phonons."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ase import Atoms
from rich.console import Console

from .checks import check_chunk
from .force_constants import displaced_forces, linear_forces, sum_rule_violation
from .group_velocities import group_velocities
from .grueneisen import VOLUME_STEP, grueneisen_parameters
from .kept_forces import KeptForces
from .outputs import check_outputs
from .phonon_result import Phonons, find_imaginary, output_paths
from .phonopy_bridge import (
    asymmetry,
    computed_force_constants,
    displacement_vectors,
    make_phonopy,
    require_phonopy,
    set_born_charges,
    supercell_matrix,
    to_ase,
)
from .precision import check_elements, choose_method, in_float64
from .progress import bar
from .relaxation import relax_and_report, told_unrelaxed
from .vacuum import reach, tell_vacuum, widths

if TYPE_CHECKING:
    from phonopy import Phonopy

_SHOWN_MODES = 10


def phonons(
    atoms: Atoms,
    calc: Any,
    supercell: Sequence[Any] = (3, 3, 3),
    method: str | None = None,
    relax: bool = True,
    mesh: Sequence[int] = (20, 20, 20),
    *,
    fmax: float = 1e-4,
    steps: int = 500,
    distance: float = 0.002,
    chunk: int | None = None,
    npoints: int = 101,
    born: str | os.PathLike[str] | None = None,
    grueneisen: bool = False,
    velocities: bool = False,
    out: str | os.PathLike[str] | None = None,
    name: str | None = None,
    plot: bool = True,
    overwrite: bool = False,
    console: Console | None = None,
) -> Phonons:
    """Harmonic phonons: bands along seekpath's path and the density of states.

    Potentials of mlpot are computed in float64. Phonopy names the displacements from which all
    force constants follow by symmetry. Their forces are exact Hessian-vector products ("hessian")
    or come from displaced supercells ("displacements", plus and minus). The force constants are
    symmetrised (acoustic sum rule, permutation), and the violation of the sum rule before and
    after is reported. With ``out`` a calculation that is stopped goes on where it was when it is
    called again (NAME-forces.npz holds its forces meanwhile, for Grueneisen parameters one more
    file for each volume).

    Args:
        atoms: unit cell, periodic in three directions; not changed, constraints are ignored.
        calc: ASE calculator.
        supercell: repetitions (3,) or a (3, 3) matrix of integers. It should be at least twice
            as wide as forces reach.
        method: "hessian" needs potentials of mlpot and is the default for it; other
            calculators use "displacements".
        relax: relax atoms and cell first, keeping the space group.
        mesh: (3,) q points for the density of states.
        fmax: how far atoms and cell are relaxed, eV/Angstrom.
        steps: of the relaxation at most.
        distance: of displacements, Angstrom.
        chunk: Hessian-vector products at a time; by default as many as fit the memory.
        npoints: q points on the longest piece of the path.
        born: file of Born effective charges and the dielectric tensor, in the format of phonopy's
            BORN, for the splitting of optical modes at Gamma in polar crystals; the same for all
            volumes of Grueneisen parameters.
        grueneisen: compute Grueneisen parameters too, from the phonons at two more volumes.
        velocities: compute group velocities on the mesh too.
        out: folder for the files; nothing is written by default.
        name: what file names begin with; the formula by default.
        plot: whether the picture is among the files.
        overwrite: whether existing files are replaced.
        console: where progress is shown; standard output by default.

    Returns:
        The result, with phonopy's object and the paths of the files.

    Raises:
        ValueError: a structure, supercell, mesh or method that cannot be, unknown elements, a
            relaxation that did not end, or files that exist already.
        ImportError: phonopy is not installed.
    """
    matrix = supercell_matrix(supercell)
    counts = _check_mesh(mesh)
    method = choose_method(method, calc, "hessian", "displacements")
    _check_numbers(distance, npoints)
    check_chunk(chunk)
    check_elements(atoms, calc)
    if not atoms.pbc.all():
        raise ValueError(
            f"the structure is periodic along {atoms.pbc.tolist()} only; phonons need a crystal, "
            "periodic in three directions (a file without a cell cannot give one)"
        )
    name = name or atoms.get_chemical_formula()
    if out is not None:
        asked = [*["grueneisen"] * grueneisen, *["velocities"] * velocities]
        check_outputs(output_paths(out, name, plot, relax, asked).values(), overwrite)
    require_phonopy()
    console = Console() if console is None else console
    calc = in_float64(calc)
    unit = atoms.copy()
    unit.set_constraint()
    if born is not None:
        set_born_charges(make_phonopy(unit, matrix), born)  # before any work: are they right?
    if relax:
        console.print(f"Relaxing atoms and cell first (fmax {fmax:g} eV/Å, space group kept).")
        unit, report = relax_and_report(unit, calc, fmax, True, steps, True, console)
        if not report.converged:
            raise ValueError(
                f"{report}; phonons of an unrelaxed structure mislead: give more steps than "
                f"{steps}, or a better structure, or do not relax at all"
            )
        console.print(f"{report}.", highlight=False)
    else:
        console.print("The structure is taken as it is, without relaxation.")
    phonopy = make_phonopy(unit, matrix)
    tell_vacuum(unit, calc, "phonons", console)
    _tell_narrow(to_ase(phonopy.supercell), calc, console)
    if born is not None:
        set_born_charges(phonopy, born)
    path = None if out is None else Path(out) / f"{name}-forces.npz"
    kept = [_set_force_constants(phonopy, calc, method, distance, chunk, console, path)]
    before = sum_rule_violation(computed_force_constants(phonopy)), asymmetry(phonopy)
    # The two corrections disturb each other; a few rounds leave both satisfied.
    phonopy.symmetrize_force_constants(level=5, show_drift=False)
    after = sum_rule_violation(computed_force_constants(phonopy)), asymmetry(phonopy)
    console.print(
        f"Acoustic sum rule: off by {before[0]:.1e} eV/Å² as computed, {after[0]:.1e} after "
        f"symmetrisation; permutation symmetry: {before[1]:.1e}, {after[1]:.1e}.",
        highlight=False,
    )
    with console.status("bands and density of states"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of seekpath about itself
            phonopy.auto_band_structure(npoints=npoints)
        # The share of each element in the density of states needs all eigenvectors.
        several = len(set(unit.numbers)) > 1
        phonopy.run_mesh(
            counts, is_gamma_center=True, is_mesh_symmetry=not several, with_eigenvectors=several
        )
        phonopy.run_total_dos()
        if several:
            phonopy.run_projected_dos()
    slopes = group_velocities(phonopy) if velocities else None
    changes = None
    if grueneisen:
        console.print(
            f"Grüneisen parameters: the same for volumes {1 - VOLUME_STEP:g} and "
            f"{1 + VOLUME_STEP:g} times this one."
        )

        def at_volume(factor: float) -> Phonopy:
            cell = unit.copy()
            cell.set_cell(unit.cell.array * factor ** (1 / 3), scale_atoms=True)
            if relax:
                cell, report = relax_and_report(cell, calc, fmax, False, steps, True, console)
                if not report.converged:
                    told = told_unrelaxed(1, f"volumes ({factor:g} times this one)")
                    raise ValueError(f"Grueneisen parameters: {told}")
            other = make_phonopy(cell, matrix, phonopy)
            if born is not None:
                other.nac_params = phonopy.nac_params
            path = None if out is None else Path(out) / f"{name}-forces-{factor:g}.npz"
            kept.append(_set_force_constants(other, calc, method, distance, chunk, console, path))
            other.symmetrize_force_constants(level=5, show_drift=False)
            return other

        changes = grueneisen_parameters(phonopy, at_volume, counts)
    result = Phonons(
        phonopy,
        unit,
        method,
        relax,
        *(before[0], after[0], before[1], after[1]),
        find_imaginary(phonopy),
        changes,
        slopes,
    )
    _tell_imaginary(result, console)
    if out is not None:
        result.write(out, name, plot, overwrite)
    for forces in kept:
        forces.remove()
    return result


def _set_force_constants(
    phonopy: Phonopy,
    calc: Any,
    method: str,
    distance: float,
    chunk: int | None,
    console: Console,
    path: Path | None,
) -> KeptForces:
    size = f"supercell of {len(phonopy.supercell)} atoms"
    exact = method == "hessian"
    # An exact product needs no second one with the opposite sign.
    phonopy.generate_displacements(distance=distance, is_plusminus=not exact)
    vectors = displacement_vectors(phonopy)
    large = to_ase(phonopy.supercell)
    kept = KeptForces(path, calc, large, vectors)
    if len(kept.forces):
        console.print(f"{len(kept.forces)} of {len(vectors)} forces were computed before.")
    if exact:
        with bar(console, f"second derivatives, {size}", len(vectors)) as progress:
            phonopy.forces = linear_forces(calc, large, vectors, chunk, progress, kept)
    else:
        displaced = [to_ase(cell) for cell in phonopy.supercells_with_displacements or []]
        with bar(console, f"displacements, {size}", len(displaced)) as progress:
            phonopy.forces = displaced_forces(calc, displaced, progress, kept)
    phonopy.produce_force_constants(calculate_full_force_constants=False, show_drift=False)
    return kept


def _tell_narrow(supercell: Atoms, calc: Any, console: Console) -> None:
    """A displaced atom that pulls at its own image: frequencies off the commensurate points err."""
    width = float(widths(supercell).min())
    if width < reach(calc):
        console.print(
            f"[yellow]The supercell is {width:.1f} Å wide, less than forces reach "
            f"({reach(calc):g} Å): give a larger one (--supercell).[/yellow]",
            highlight=False,
        )


def _tell_imaginary(result: Phonons, console: Console) -> None:
    if not result.imaginary:
        console.print("No imaginary modes on the path and the mesh.")
        return
    console.print(f"[yellow]{len(result.imaginary)} imaginary modes; the worst:[/yellow]")
    for mode in result.imaginary[:_SHOWN_MODES]:
        console.print(f"  {mode}", highlight=False)


def _check_mesh(mesh: Sequence[int]) -> list[int]:
    if len(mesh) != 3 or any(int(n) != n or n < 1 for n in mesh):
        raise ValueError(f"mesh is {mesh!r}: give three numbers of at least 1, such as 20 20 20")
    return [int(n) for n in mesh]


def _check_numbers(distance: float, npoints: int) -> None:
    if not 0 < distance < 0.5:
        raise ValueError(f"distance is {distance} Angstrom: give a small one, such as 0.002")
    if npoints < 2:
        raise ValueError(f"npoints is {npoints}: give at least 2")
