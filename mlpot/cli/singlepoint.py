"""``mlpot singlepoint``: energy, forces and stress of one structure."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .dispersion import Functional, potential_of


def singlepoint(
    model: Annotated[
        str, typer.Option(help="Model, e.g. best.safetensors, or a pattern: a committee.")
    ],
    struct: Annotated[Path, typer.Option(help="Structure, in any format that ASE reads.")],
    dtype: Annotated[str, typer.Option(help="float32 or float64.")] = "float64",
    d3: Functional = None,
    out: Annotated[
        Path | None, typer.Option(help="Structure with its results is written here (.extxyz).")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the file where it exists.")
    ] = False,
) -> None:
    """Print energy, forces and, for three periodic directions, stress of a structure."""
    import numpy as np
    from ase.calculators.calculator import all_changes
    from ase.calculators.singlepoint import SinglePointCalculator

    from mlpot.workflows.structures import check_writable, read_structure, write_structure

    if out is not None:
        if out.suffix not in (".extxyz", ".xyz"):
            raise ValueError(f"--out {str(out)!r}: results are kept in .extxyz or .xyz files only")
        check_writable(out, overwrite)
    atoms = read_structure(struct)
    calculator = potential_of(model, d3, dtype=dtype, skin=0.0)
    stress = ["stress"] if atoms.pbc.all() else []
    calculator.calculate(atoms, ["energy", "forces", *stress], all_changes)
    results = calculator.results
    forces = np.asarray(results["forces"])
    lengths = np.linalg.norm(forces, axis=1)
    typer.echo(f"atoms             {len(atoms)} ({atoms.get_chemical_formula()})")
    typer.echo(f"energy            {results['energy']:.8f} eV")
    typer.echo(f"energy per atom   {results['energy'] / len(atoms):.8f} eV")
    if d3 is not None:
        typer.echo(f"of it, D3({d3})".ljust(18) + f"{results['energy_contributions'][1]:.8f} eV")
    if "energy_var" in results:
        typer.echo(f"energy committee  +- {np.sqrt(results['energy_var']):.8f} eV")
    typer.echo(f"forces rms        {np.sqrt(np.mean(forces**2)):.8f} eV/Angstrom (components)")
    typer.echo(f"forces max        {lengths.max():.8f} eV/Angstrom (atom {lengths.argmax()})")
    if "stress" in results:
        numbers = " ".join(f"{value:.8f}" for value in np.asarray(results["stress"]))
        typer.echo(f"stress            {numbers} eV/Angstrom^3 (xx yy zz yz xz xy)")
    else:
        typer.echo("stress            none: it needs three periodic directions")
    if out is not None:
        kept = {name: results[name] for name in ("energy", "forces", "stress") if name in results}
        atoms.calc = SinglePointCalculator(atoms, **kept)
        write_structure(out, atoms, overwrite)
        typer.echo(f"written to {out}")
