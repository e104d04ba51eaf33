"""``mlpot neb``: minimum-energy path between two structures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .dispersion import Functional, potential_of
from .outputs import Overwrite, Plot
from .stopping import stopping


def neb(
    model: Annotated[str, typer.Option(help="Model, e.g. best.safetensors.")],
    initial: Annotated[Path, typer.Option(help="First structure.")],
    final: Annotated[Path, typer.Option(help="Last structure: the same atoms, the same order.")],
    images: Annotated[int, typer.Option(help="Moving images between the two.")] = 7,
    climb: Annotated[
        bool, typer.Option("--climb/--no-climb", help="The highest image climbs to the saddle.")
    ] = True,
    relax_ends: Annotated[
        bool, typer.Option("--relax-ends/--no-relax-ends", help="Relax the two structures first.")
    ] = True,
    fmax: Annotated[float, typer.Option(help="Largest force that may remain, eV/Å.")] = 0.03,
    steps: Annotated[int, typer.Option(help="At most so many steps.")] = 500,
    dtype: Annotated[str, typer.Option(help="float32 or float64.")] = "float64",
    d3: Functional = None,
    out: Annotated[Path, typer.Option(help="Folder for the files.")] = Path("neb"),
    name: Annotated[str, typer.Option(help="What file names begin with.")] = "neb",
    plot: Plot = True,
    overwrite: Overwrite = False,
) -> None:
    """Find the minimum-energy path and its barrier; all images are computed together.

    Writes NAME-path.extxyz, NAME-neb.json and a picture; what was reached is
    written in any case.
    """
    from rich.console import Console

    from mlpot import workflows

    if dtype not in ("float32", "float64"):
        raise ValueError(f"dtype is {dtype!r}: give float32 or float64")
    first, last = workflows.read_structure(initial), workflows.read_structure(final)
    console = Console()
    with stopping(f"the same command goes on with what is kept in {out}"):
        band = workflows.neb(
            first,
            last,
            potential_of(model, d3, dtype=dtype),
            images,
            climb=climb,
            relax_ends=relax_ends,
            fmax=fmax,
            steps=steps,
            out=out,
            name=name,
            plot=plot,
            overwrite=overwrite,
            console=console,
        )
    console.print(f"Written to {out}", highlight=False, soft_wrap=True)
    if not band.converged:
        raise ValueError(f"fmax {fmax:g} was not reached: give more --steps than {steps}")
