"""``mlpot anharmonic``: third-order force constants and thermal conductivity."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .outputs import NameOfStruct, Overwrite, Plot
from .relaxing import Steps
from .stopping import stopping
from .triples import integers


def anharmonic(
    model: Annotated[str, typer.Option(help="Model, e.g. best.safetensors.")],
    struct: Annotated[Path, typer.Option(help="Unit cell, in any format that ASE reads.")],
    supercell: Annotated[
        str, typer.Option(help="Repetitions, or nine integers of a matrix.", metavar="N N N")
    ] = "2,2,2",
    mesh: Annotated[
        str | None,
        typer.Option(help="q points for the thermal conductivity; without, none.", metavar="N N N"),
    ] = None,
    relax: Annotated[
        bool, typer.Option("--relax/--no-relax", help="Relax atoms and cell first.")
    ] = True,
    fmax: Annotated[float, typer.Option(help="How far that goes, eV/Å.")] = 1e-4,
    steps: Steps = 500,
    chunk: Annotated[int, typer.Option(help="Products at a time; memory grows with it.")] = 16,
    out: Annotated[Path, typer.Option(help="Folder for the files.")] = Path("anharmonic"),
    name: NameOfStruct = None,
    plot: Plot = True,
    overwrite: Overwrite = False,
) -> None:
    """Third-order force constants in float64 by exact derivatives, for small supercells.

    Writes NAME-phono3py.yaml, NAME-fc2.hdf5 and NAME-fc3.hdf5, which phono3py opens,
    and with --mesh the thermal conductivity in the relaxation-time approximation.
    """
    from rich.console import Console

    from mlpot import workflows
    from mlpot.calculators import MLPotCalculator

    repetitions = integers(supercell, "--supercell")
    counts = None if mesh is None else integers(mesh, "--mesh")
    atoms = workflows.read_structure(struct)
    console = Console()
    with stopping(f"the same command goes on with what is kept in {out}"):
        result = workflows.anharmonic(
            atoms,
            MLPotCalculator(model, dtype="float64"),
            repetitions,
            relax,
            mesh=counts,
            fmax=fmax,
            steps=steps,
            chunk=chunk,
            out=out,
            name=name or struct.stem,
            plot=plot,
            overwrite=overwrite,
            console=console,
        )
    console.print("Written:")
    for path in result.files.values():
        console.print(f"  {path}", highlight=False, soft_wrap=True)
