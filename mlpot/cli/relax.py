"""``mlpot relax``: to the nearest minimum of the energy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .dispersion import Functional, potential_of
from .stopping import command, leave


def relax(
    model: Annotated[str, typer.Option(help="Model, e.g. best.safetensors.")],
    struct: Annotated[
        list[Path],
        typer.Option(help="Structure, in any format that ASE reads; may be given several times."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where it is written; STRUCT-relaxed.extxyz here by default, for several "
            "structures relaxed.extxyz."
        ),
    ] = None,
    frames: Annotated[
        bool, typer.Option("--frames", help="Relax all structures of each file, not the last.")
    ] = False,
    fmax: Annotated[float, typer.Option(help="Largest force that may remain, eV/Å.")] = 1e-3,
    cell: Annotated[bool, typer.Option("--cell", help="Relax the cell too.")] = False,
    symmetry: Annotated[bool, typer.Option("--symmetry", help="Keep the space group.")] = False,
    steps: Annotated[int, typer.Option(help="At most so many steps.")] = 500,
    dtype: Annotated[str, typer.Option(help="float32 or float64.")] = "float64",
    d3: Functional = None,
    plot: Annotated[
        bool,
        typer.Option("--plot/--no-plot", help="Draw a picture, named as the file; not of a batch."),
    ] = True,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the file where it exists.")
    ] = False,
) -> None:
    """Relax structures, and with --cell their cells; what was reached is written in any case.

    Several structures are relaxed together in one batch and written into one file,
    in order; with --cell, --symmetry or --d3, or a committee, one after the other.
    Ctrl-C or SIGTERM stops it after the step under way; it then says how to go on.
    """
    from rich.console import Console

    from mlpot import workflows
    from mlpot.workflows.outputs import check_outputs
    from mlpot.workflows.relaxation_plot import draw_relaxations, picture_of
    from mlpot.workflows.structures import check_writable, read_structures

    if dtype not in ("float32", "float64"):
        raise ValueError(f"dtype is {dtype!r}: give float32 or float64")
    several = frames or len(struct) > 1
    default = "relaxed.extxyz" if several else f"{struct[0].stem}-relaxed.extxyz"
    target = Path(default) if out is None else out
    check_writable(target, overwrite)
    picture = picture_of(target)
    if plot:
        check_outputs([picture], overwrite)
    found = [atoms for path in struct for atoms in read_structures(path, every=frames)]
    calc = potential_of(model, d3, dtype=dtype)
    console = Console()
    results, stop = [], None
    try:
        if several and not (cell or symmetry or d3 or len(calc.members) > 1):
            results = workflows.relax_batch(found, calc, fmax, steps, console)
        else:
            for atoms in found:
                results += [
                    workflows.relax_and_report(atoms, calc, fmax, cell, steps, symmetry, console)
                ]
    except workflows.Stopped as error:
        results, stop = [*results, *error.reached], error
    # Structures whose turn had not come are written as they were.
    relaxed = [atoms for atoms, _ in results] + found[len(results) :]
    workflows.write_structure(target, relaxed if several else relaxed[0], overwrite)
    drawn = [report for _, report in results if len(report.history)]
    if plot and drawn:
        draw_relaxations(drawn, picture, fmax, overwrite)
    for number, (atoms, report) in enumerate(results):
        name = f"{number} {atoms.get_chemical_formula()}: " if several else ""
        console.print(f"{name}{report}.", highlight=False)
    console.print(f"Written to {target}", highlight=False, soft_wrap=True)
    left = sum(not report.converged for _, report in results) + len(found) - len(results)
    if stop is not None and left:
        options = [("--model", model), ("--struct", target), ("--frames", several)]
        options += [("--out", target), ("--overwrite", True), ("--fmax", fmax), ("--cell", cell)]
        options += [
            ("--no-plot", not plot),
            ("--symmetry", symmetry),
            ("--steps", steps),
            ("--dtype", dtype),
            ("--d3", d3),
        ]
        leave(stop, f"what was reached is written; go on with\n  {command('relax', options)}")
    if stop is not None:
        leave(stop, "all was done")
    if left:
        which = f" by {left} of {len(found)} structures" if several else ""
        raise ValueError(f"fmax {fmax:g} was not reached{which}: give more --steps than {steps}")
