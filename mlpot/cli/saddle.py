"""``mlpot saddle``: from one structure to a saddle point."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .outputs import NameOfStruct, Overwrite, Plot
from .stopping import command, leave


def saddle(
    model: Annotated[str, typer.Option(help="Model, e.g. best.safetensors.")],
    struct: Annotated[Path, typer.Option(help="Where the search begins.")],
    towards: Annotated[
        Path | None,
        typer.Option(help="Climb towards this structure; by default along the softest mode."),
    ] = None,
    fmax: Annotated[float, typer.Option(help="Largest force that may remain, eV/Å.")] = 0.01,
    steps: Annotated[int, typer.Option(help="At most so many steps.")] = 200,
    max_step: Annotated[float, typer.Option(help="Longest step, all atoms together, Å.")] = 0.2,
    connect: Annotated[
        bool, typer.Option("--connect/--no-connect", help="Relax both ways down from the saddle.")
    ] = True,
    seed: Annotated[int, typer.Option(help="Of the search for the softest mode.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder for the files.")] = Path("saddle"),
    name: NameOfStruct = None,
    plot: Plot = True,
    overwrite: Overwrite = False,
) -> None:
    """Find a saddle point from one structure, with exact second derivatives in float64.

    Writes NAME-saddle.extxyz, NAME-mode.extxyz (an animation), NAME-minima.extxyz
    (both ways down), NAME-saddle.json and a picture; what was reached is written
    in any case, also when Ctrl-C or SIGTERM stops it, which then says how to go on.
    """
    from rich.console import Console

    from mlpot import workflows
    from mlpot.calculators import MLPotCalculator

    atoms = workflows.read_structure(struct)
    goal = None if towards is None else workflows.read_structure(towards)
    console = Console()
    name = name or struct.stem
    try:
        result = workflows.saddle(
            atoms,
            MLPotCalculator(model, dtype="float64"),
            towards=goal,
            fmax=fmax,
            steps=steps,
            max_step=max_step,
            connect=connect,
            seed=seed,
            out=out,
            name=name,
            plot=plot,
            overwrite=overwrite,
            console=console,
        )
    except workflows.Stopped as stop:
        reached = out / f"{name}-saddle.extxyz"
        options = [("--model", model), ("--struct", reached), ("--towards", towards)]
        options += [("--fmax", fmax), ("--steps", steps), ("--max-step", max_step)]
        options += [("--no-connect", not connect), ("--seed", seed), ("--out", out)]
        options += [("--name", name), ("--no-plot", not plot), ("--overwrite", True)]
        leave(stop, f"what was reached is written; go on with\n  {command('saddle', options)}")
    console.print(f"Written to {out}", highlight=False, soft_wrap=True)
    if not result.converged:
        raise ValueError(
            f"fmax {fmax:g} was not reached: give more --steps than {steps}, or start nearer to "
            "the saddle point"
        )
