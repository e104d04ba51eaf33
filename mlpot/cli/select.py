"""``mlpot select``: which frames of a pool to label next."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def select(
    model: Annotated[
        str, typer.Argument(help="Committee: the folder of a run with n_models, or a pattern.")
    ],
    pool: Annotated[list[str], typer.Argument(help="Files with frames to choose from.")],
    out: Annotated[Path, typer.Option(help="File for the chosen frames: .extxyz or .h5.")],
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="Frames to choose.")] = 20,
    labelled: Annotated[
        list[str] | None,
        typer.Option(help="Files with frames that have labels already; may be repeated."),
    ] = None,
    lower: Annotated[
        float, typer.Option(min=0, help="Leave out frames disputed less (eV/Angstrom).")
    ] = 0.0,
    upper: Annotated[
        float | None, typer.Option(help="Leave out frames disputed more (eV/Angstrom).")
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Frames computed at once.")] = 8,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace OUT where it exists.")
    ] = False,
) -> None:
    """Choose the frames of a pool that are worth a label.

    A frame counts by the largest standard deviation of a force over the
    members of the committee. Of the disputed ones those are taken that are
    unlike each other and unlike what has labels already.

    mlpot select runs/committee md/trajectory.extxyz --labelled train.h5 -n 20 --out next.extxyz
    """
    from rich.console import Console

    from mlpot import datasets
    from mlpot.calculators.members import find_models, load_member
    from mlpot.training.selecting import select as choose

    if out.exists() and not overwrite:
        raise ValueError(f"{out} exists already; add --overwrite to replace it")
    committee = [load_member(one, "float32") for one in find_models(model)]
    frames = datasets.read(pool)
    known = datasets.read(labelled) if labelled else []
    with Console(stderr=True).status(f"{len(committee)} potentials, {len(frames)} frames"):
        found = choose(
            committee,
            frames,
            count,
            labelled=[frame for frame in known if not frame.is_isolated_atom],
            lower=lower,
            upper=float("inf") if upper is None else upper,
            batch_size=batch_size,
        )
    if not found.index:
        raise ValueError(
            f"no frame is disputed by {lower:g} to {'any' if upper is None else f'{upper:g}'} "
            f"eV/Angstrom; they are from {found.disagreement.min():.3g} to "
            f"{found.disagreement.max():.3g}: change --lower or --upper"
        )
    # What the frames carry was not made by the method that is to label them.
    bare = [frames[i].replace(energy=None, forces=None, stress=None) for i in found.index]
    datasets.write(
        out, bare, {"selected_by": model, "from": [str(frames[i].source) for i in found.index]}
    )
    for rank, index in enumerate(found.index, 1):
        away = "" if found.distance is None else f", distance {found.distance[index]:.3g}"
        typer.echo(
            f"{rank:4d}  {frames[index].source or index}  "
            f"disagreement {found.disagreement[index]:.3f} eV/Å{away}"
        )
    typer.echo(
        f"{len(found.index)} of {found.candidates} disputed frames ({len(frames)} in all) in {out}"
    )
