"""Third-order force constants and lattice thermal conductivity of a crystal."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from ase import Atoms
from ase.build import make_supercell
from rich.console import Console

from mlpot.calculators import MLPotCalculator

from .anharmonic_result import Anharmonic, output_paths
from .checks import check_chunk
from .kept_forces import KeptForces
from .outputs import check_outputs
from .phonopy_bridge import make_phono3py, require_phonopy, supercell_matrix, to_ase
from .precision import check_elements, in_float64, with_exact_radial
from .progress import bar
from .relaxation import relax_and_report

#: Third derivatives below this, eV/Angstrom^3, are zero by symmetry.
_NOTHING = 1e-6


def anharmonic(
    atoms: Atoms,
    calc: Any,
    supercell: Sequence[Any] = (2, 2, 2),
    relax: bool = True,
    *,
    mesh: Sequence[int] | None = None,
    temperatures: Sequence[float] = tuple(range(100, 1001, 50)),
    fmax: float = 1e-4,
    steps: int = 500,
    chunk: int = 16,
    out: str | os.PathLike[str] | None = None,
    name: str | None = None,
    plot: bool = True,
    overwrite: bool = False,
    console: Console | None = None,
) -> Anharmonic:
    """Second- and third-order force constants by exact derivatives, as phono3py reads them.

        Phi_abc = d3E / dR_a dR_b dR_c

    The third derivatives with the atoms of the primitive cell that symmetry does not relate are
    derivatives of the Hessian along their displacements; symmetry gives the rest. It takes
    9 n_supercell third-order products for each such atom, so this is for small supercells. With
    ``out``, what is computed is kept there until the end: a run that was stopped goes on. With a
    mesh, phono3py computes the thermal conductivity in the relaxation-time approximation.

    Args:
        atoms: unit cell, periodic in three directions; not changed, constraints are ignored.
        calc: calculator of mlpot; its potentials are computed in float64, without radial tables,
            whose third derivatives jump at the knots.
        supercell: repetitions (3,) or a (3, 3) matrix of integers.
        relax: relax atoms and cell first, keeping the space group.
        mesh: (3,) q points for the thermal conductivity; None for none.
        temperatures: of the conductivity, K.
        fmax: how far atoms and cell are relaxed, eV/Angstrom.
        steps: of the relaxation at most.
        chunk: products at a time; memory grows with it.
        out: folder for the files; nothing is written by default.
        name: what file names begin with; the formula by default.
        plot: whether the picture is among the files.
        overwrite: whether existing files are replaced.
        console: where progress is shown; standard output by default.

    Returns:
        The result, with phono3py's object.

    Raises:
        ValueError: a structure, supercell or mesh that cannot be, another calculator, unknown
            elements, a relaxation that did not end, third derivatives that vanish by symmetry, or
            files that exist already.
        ImportError: phono3py is not installed.
    """
    matrix = supercell_matrix(supercell)
    check_chunk(chunk)
    _check(atoms, calc, mesh, temperatures)
    require_phonopy("phono3py")
    name = name or atoms.get_chemical_formula()
    if out is not None:
        check_outputs(output_paths(out, name, mesh is not None, plot).values(), overwrite)
    _check_size(atoms, matrix, supercell)
    console = Console() if console is None else console
    calc = with_exact_radial(in_float64(calc))
    unit = atoms.copy()
    unit.set_constraint()
    if relax:
        unit, report = relax_and_report(unit, calc, fmax, True, steps, True, console)
        if not report.converged:
            raise ValueError(f"{report}; give more steps than {steps}, or a better structure")
        console.print(f"{report}.", highlight=False)
    phono3py = make_phono3py(unit, matrix)
    large = to_ase(phono3py.supercell)
    primitive = [int(i) for i in phono3py.primitive.p2s_map]
    with bar(console, f"second derivatives, {len(large)} atoms", 3 * len(primitive)) as progress:
        hessian = calc.get_hessian(large, rows=primitive, progress=progress)
    shape = (len(primitive), 3, len(large), 3)
    phono3py.fc2 = np.ascontiguousarray(hessian.reshape(shape).swapaxes(1, 2))
    path = None if out is None else Path(out) / f"{name}-third-order.npz"
    third, kept = _third_order(phono3py, primitive, large, calc, chunk, console, path)
    if np.abs(third).max() < _NOTHING:
        kept.remove()
        raise _too_small(len(large), supercell)
    drift = float(np.abs(third.sum(axis=2)).max())
    phono3py.fc3 = third.copy()  # symmetrised in place
    phono3py.symmetrize_fc2()
    phono3py.symmetrize_fc3()
    console.print(
        f"Third order: largest {np.abs(third).max():.3f} eV/Å³; its sum rule is off by "
        f"{drift:.1e} eV/Å³ as computed.",
        highlight=False,
    )
    result = Anharmonic(phono3py, unit, third, drift)
    if mesh is not None:
        with console.status("thermal conductivity"):
            result = result.with_conductivity(mesh, temperatures)
        console.print(result.table(), highlight=False)
    if out is not None:
        result.write(out, name, plot, overwrite)
    kept.remove()
    return result


def _third_order(
    phono3py: Any,
    primitive: list[int],
    large: Atoms,
    calc: MLPotCalculator,
    chunk: int,
    console: Console,
    path: Path | None,
) -> tuple[np.ndarray, KeptForces]:
    """Compact force constants, (n_primitive, n_supercell, n_supercell, 3, 3, 3), and the file."""
    symmetry = phono3py.symmetry
    n_atoms = len(large)
    unit_vectors = np.eye(3 * n_atoms).reshape(-1, n_atoms, 3)
    mapping = symmetry.get_map_atoms()
    representatives = {int(mapping[i]): i for i in reversed(primitive)}
    moves = np.array(
        [unit_vectors[3 * atom + axis] for atom in representatives.values() for axis in range(3)]
    )
    kept = KeptForces(path, calc, large, moves)
    total = 3 * n_atoms * len(moves)
    if len(kept.forces):
        console.print(f"{len(kept.forces)} of {total} third derivatives were computed before.")
    with bar(console, f"third derivatives, {n_atoms} atoms", total) as progress, kept:
        while (done := len(kept.forces)) < total:
            move, column = divmod(done, 3 * n_atoms)
            part = unit_vectors[column : column + chunk]
            kept.add(calc.get_third_order(large, moves[move], part, chunk))
            progress(len(kept.forces), total)
    # (atom, axis, atom, axis, atom, axis) to phono3py's order: atoms first.
    blocks = kept.forces.reshape(-1, 3, n_atoms, 3, n_atoms, 3).transpose(0, 2, 4, 1, 3, 5)
    found = dict(zip(representatives.values(), blocks, strict=True))
    compact = np.empty((len(primitive), n_atoms, n_atoms, 3, 3, 3))
    for row, atom in enumerate(primitive):
        source = representatives[int(mapping[atom])]
        compact[row] = _rotated(found[source], source, atom, symmetry, large)
    return compact, kept


def _rotated(
    blocks: np.ndarray, source: int, target: int, symmetry: Any, large: Atoms
) -> np.ndarray:
    """Derivatives with a displaced atom from those with one that an operation maps onto it."""
    if source == target:
        return blocks
    rotations = symmetry.symmetry_operations["rotations"]
    permutations = np.asarray(symmetry.atomic_permutations)
    # Atom permutations[op][i] lies where the operation moves atom i.
    operation = int(np.flatnonzero(permutations[:, source] == target)[0])
    to, cell = permutations[operation], large.cell.array.T
    turn = cell @ rotations[operation] @ np.linalg.inv(cell)
    turned = np.einsum("ai,bj,ck,mnijk->mnabc", turn, turn, turn, blocks, optimize=True)
    result = np.empty_like(blocks)
    result[np.ix_(to, to)] = turned
    return result


def _too_small(n_atoms: int, supercell: Sequence[Any]) -> ValueError:
    return ValueError(
        f"all third derivatives vanish in a supercell of {n_atoms} atoms: in one so small each "
        f"neighbour and its mirror image are the same atom; give a larger one than "
        f"{np.asarray(supercell).tolist()}"
    )


def _check_size(atoms: Atoms, matrix: np.ndarray, supercell: Sequence[Any]) -> None:
    """Refuse a supercell in which inversion at an atom leaves every atom where it is.

    Third derivatives change their sign under inversion, so they are zero there.
    """
    large = make_supercell(atoms, matrix)
    places = large.get_scaled_positions(wrap=False)
    twice = 2 * (places - places[0])
    if np.abs(twice - np.rint(twice)).max() < 1e-5:
        raise _too_small(len(large), supercell)


def _check(atoms: Atoms, calc: Any, mesh: Any, temperatures: Sequence[float]) -> None:
    if not isinstance(calc, MLPotCalculator):
        raise ValueError(
            f"{type(calc).__name__} gives no third derivatives: give a calculator of mlpot, or use "
            "phono3py's own displacements"
        )
    check_elements(atoms, calc)
    if not atoms.pbc.all():
        raise ValueError(
            f"the structure is periodic along {atoms.pbc.tolist()} only; force constants need a "
            "crystal, periodic in three directions"
        )
    if mesh is not None and (len(mesh) != 3 or any(int(n) != n or n < 1 for n in mesh)):
        raise ValueError(f"mesh is {mesh!r}: give three numbers of at least 1, such as 11 11 11")
    if len(temperatures) == 0 or min(temperatures) <= 0:
        raise ValueError(f"temperatures are {list(temperatures)}: give numbers above 0 K")
