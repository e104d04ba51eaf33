"""``mlpot phonons``: band structure and density of states of a crystal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .dispersion import Functional, potential_of
from .outputs import NameOfStruct, Overwrite, Plot
from .relaxing import Steps
from .stopping import stopping
from .triples import integers


def phonons(
    model: Annotated[Path, typer.Option(help="Model, e.g. best.safetensors.")],
    struct: Annotated[Path, typer.Option(help="Unit cell, in any format that ASE reads.")],
    supercell: Annotated[
        str, typer.Option(help="Repetitions, or nine integers of a matrix.", metavar="N N N")
    ] = "3,3,3",
    mesh: Annotated[str, typer.Option(help="q points for the DOS.", metavar="N N N")] = "20,20,20",
    method: Annotated[
        str, typer.Option(help="hessian (exact second derivatives) or displacements.")
    ] = "hessian",
    distance: Annotated[float, typer.Option(help="Of displacements, Å.")] = 0.002,
    d3: Functional = None,
    relax: Annotated[
        bool, typer.Option("--relax/--no-relax", help="Relax atoms and cell first.")
    ] = True,
    fmax: Annotated[float, typer.Option(help="How far that goes, eV/Å.")] = 1e-4,
    steps: Steps = 500,
    chunk: Annotated[
        int | None,
        typer.Option(help="Products at a time; by default as many as fit the memory."),
    ] = None,
    born: Annotated[
        Path | None, typer.Option(help="Born charges in phonopy's BORN format, for polar crystals.")
    ] = None,
    grueneisen: Annotated[
        bool, typer.Option("--grueneisen", help="Grueneisen parameters too, from two volumes.")
    ] = False,
    velocities: Annotated[
        bool, typer.Option("--velocities", help="Group velocities on the mesh too.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder for the files.")] = Path("phonons"),
    name: NameOfStruct = None,
    plot: Plot = True,
    overwrite: Overwrite = False,
) -> None:
    """Compute phonons in float64.

    Writes NAME-phonopy.yaml and NAME-force_constants.hdf5, which phonopy opens,
    pictures of bands and density of states, and thermal properties.
    """
    from rich.console import Console

    from mlpot import workflows

    if method not in ("hessian", "displacements"):
        raise ValueError(f"method is {method!r}: give hessian or displacements")
    if d3 is not None and method == "hessian":
        raise ValueError(
            "exact second derivatives are of the potential alone: with --d3 give "
            "--method displacements"
        )
    repetitions = integers(supercell, "--supercell")
    counts = integers(mesh, "--mesh")
    atoms = workflows.read_structure(struct)
    console = Console()
    with stopping(f"the same command goes on with what is kept in {out}"):
        result = workflows.phonons(
            atoms,
            potential_of(model, d3, dtype="float64"),
            repetitions,
            method,
            relax,
            counts,
            fmax=fmax,
            steps=steps,
            distance=distance,
            chunk=chunk,
            born=born,
            grueneisen=grueneisen,
            velocities=velocities,
            out=out,
            name=name or struct.stem,
            plot=plot,
            overwrite=overwrite,
            console=console,
        )
    console.print("Written:")
    for path in result.files.values():
        console.print(f"  {path}", highlight=False, soft_wrap=True)
