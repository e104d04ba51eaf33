"""``mlpot eos``: energy against volume."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .dispersion import Functional, potential_of
from .outputs import NameOfStruct, Overwrite, Plot
from .relaxing import Steps
from .stopping import stopping


def eos(
    model: Annotated[str, typer.Option(help="Model, e.g. best.safetensors.")],
    struct: Annotated[Path, typer.Option(help="Unit cell, in any format that ASE reads.")],
    span: Annotated[float, typer.Option(help="Volumes from 1 - SPAN to 1 + SPAN.")] = 0.06,
    points: Annotated[int, typer.Option(help="Number of volumes.")] = 9,
    relax: Annotated[
        bool, typer.Option("--relax/--no-relax", help="Relax the atoms at each volume.")
    ] = True,
    fmax: Annotated[float, typer.Option(help="How far that goes, eV/Å.")] = 1e-3,
    steps: Steps = 500,
    d3: Functional = None,
    out: Annotated[Path, typer.Option(help="Folder for the files.")] = Path("eos"),
    name: NameOfStruct = None,
    plot: Plot = True,
    overwrite: Overwrite = False,
) -> None:
    """Fit the Birch-Murnaghan equation of state of a crystal.

    Writes NAME-eos.json and a picture.
    """
    from rich.console import Console

    from mlpot import workflows

    atoms = workflows.read_structure(struct)
    console = Console()
    with stopping("nothing is written"):
        workflows.eos(
            atoms,
            potential_of(model, d3, dtype="float64"),
            span=span,
            points=points,
            relax=relax,
            fmax=fmax,
            steps=steps,
            out=out,
            name=name or struct.stem,
            plot=plot,
            overwrite=overwrite,
            console=console,
        )
    console.print(f"Written to {out}", highlight=False, soft_wrap=True)
