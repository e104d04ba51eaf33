"""``mlpot elastic``: elastic constants and moduli of a crystal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .outputs import NameOfStruct, Overwrite, Plot
from .relaxing import Steps
from .stopping import stopping


def elastic(
    model: Annotated[str, typer.Option(help="Model, e.g. best.safetensors.")],
    struct: Annotated[Path, typer.Option(help="Unit cell, in any format that ASE reads.")],
    method: Annotated[
        str, typer.Option(help="derivatives (exact) or strains (finite ones).")
    ] = "derivatives",
    strain: Annotated[float, typer.Option(help="Size of the finite strains.")] = 2e-3,
    relax: Annotated[
        bool, typer.Option("--relax/--no-relax", help="Relax atoms and cell first.")
    ] = True,
    fmax: Annotated[float, typer.Option(help="How far that goes, eV/Å.")] = 1e-4,
    steps: Steps = 500,
    out: Annotated[Path, typer.Option(help="Folder for the files.")] = Path("elastic"),
    name: NameOfStruct = None,
    plot: Plot = True,
    overwrite: Overwrite = False,
) -> None:
    """Compute elastic constants with clamped and relaxed ions, in float64.

    Writes NAME-elastic.json and a picture of Young's modulus.
    """
    from rich.console import Console

    from mlpot import workflows
    from mlpot.calculators import MLPotCalculator

    atoms = workflows.read_structure(struct)
    console = Console()
    with stopping("nothing is written"):
        workflows.elastic(
            atoms,
            MLPotCalculator(model, dtype="float64"),
            relax,
            method=method,
            strain=strain,
            fmax=fmax,
            steps=steps,
            out=out,
            name=name or struct.stem,
            plot=plot,
            overwrite=overwrite,
            console=console,
        )
    console.print(f"Written to {out}", highlight=False, soft_wrap=True)
