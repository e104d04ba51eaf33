"""``mlpot relax``: to the nearest minimum of the energy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def relax(
    model: Annotated[Path, typer.Option(help="Model, e.g. best.safetensors.")],
    struct: Annotated[Path, typer.Option(help="Structure, in any format that ASE reads.")],
    out: Annotated[
        Path | None,
        typer.Option(help="Where it is written; STRUCT-relaxed.extxyz here by default."),
    ] = None,
    fmax: Annotated[float, typer.Option(help="Largest force that may remain, eV/Å.")] = 1e-3,
    cell: Annotated[bool, typer.Option("--cell", help="Relax the cell too.")] = False,
    symmetry: Annotated[bool, typer.Option("--symmetry", help="Keep the space group.")] = False,
    steps: Annotated[int, typer.Option(help="At most so many steps.")] = 500,
    dtype: Annotated[str, typer.Option(help="float32 or float64.")] = "float64",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the file where it exists.")
    ] = False,
) -> None:
    """Relax a structure, and with --cell its cell; what was reached is written in any case."""
    from rich.console import Console

    from mlpot import workflows
    from mlpot.calculators import MLPotCalculator
    from mlpot.workflows.structures import check_writable

    if dtype not in ("float32", "float64"):
        raise ValueError(f"dtype is {dtype!r}: give float32 or float64")
    target = Path(f"{struct.stem}-relaxed.extxyz") if out is None else out
    check_writable(target, overwrite)
    atoms = workflows.read_structure(struct)
    calc = MLPotCalculator(model, dtype=dtype)
    console = Console()
    relaxed, report = workflows.relax_and_report(atoms, calc, fmax, cell, steps, symmetry, console)
    workflows.write_structure(target, relaxed, overwrite)
    console.print(f"{report}.", highlight=False)
    console.print(f"Written to {target}", highlight=False, soft_wrap=True)
    if not report.converged:
        raise ValueError(f"fmax {fmax:g} was not reached: give more --steps than {steps}")
