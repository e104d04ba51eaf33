"""``mlpot vibrations``: frequencies and thermochemistry of a molecule."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .outputs import NameOfStruct, Overwrite, Plot
from .relaxing import Steps
from .stopping import stopping


def vibrations(
    model: Annotated[str, typer.Option(help="Model, e.g. best.safetensors.")],
    struct: Annotated[Path, typer.Option(help="Molecule, in any format that ASE reads.")],
    method: Annotated[
        str, typer.Option(help="hessian (exact second derivatives) or displacements.")
    ] = "hessian",
    distance: Annotated[float, typer.Option(help="Of displacements, Å.")] = 0.005,
    relax: Annotated[
        bool, typer.Option("--relax/--no-relax", help="Relax the atoms first.")
    ] = True,
    fmax: Annotated[float, typer.Option(help="How far that goes, eV/Å.")] = 1e-4,
    steps: Steps = 500,
    temperature: Annotated[float, typer.Option(help="Of the thermochemistry, K.")] = 298.15,
    pressure: Annotated[float, typer.Option(help="Of the ideal gas, Pa.")] = 101325.0,
    symmetry_number: Annotated[
        int, typer.Option(help="Rotations that map the molecule onto itself; water 2, ethanol 1.")
    ] = 1,
    spin: Annotated[float, typer.Option(help="Total electronic spin: 0, 0.5, 1, ...")] = 0.0,
    out: Annotated[Path, typer.Option(help="Folder for the files.")] = Path("vibrations"),
    name: NameOfStruct = None,
    plot: Plot = True,
    overwrite: Overwrite = False,
) -> None:
    """Compute the vibrations of a molecule from its Hessian, in float64.

    Writes NAME-vibrations.json, the modes as animations (NAME-modes.extxyz, for
    ase gui) and a picture.
    """
    from rich.console import Console

    from mlpot import workflows
    from mlpot.calculators import MLPotCalculator

    atoms = workflows.read_structure(struct)
    console = Console()
    with stopping("nothing is written"):
        workflows.vibrations(
            atoms,
            MLPotCalculator(model, dtype="float64"),
            relax,
            method=method,
            distance=distance,
            temperature=temperature,
            pressure=pressure,
            symmetry_number=symmetry_number,
            spin=spin,
            fmax=fmax,
            steps=steps,
            out=out,
            name=name or struct.stem,
            plot=plot,
            overwrite=overwrite,
            console=console,
        )
    console.print(f"Written to {out}", highlight=False, soft_wrap=True)
