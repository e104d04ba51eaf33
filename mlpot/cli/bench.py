"""``mlpot bench``: how fast a potential is here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .outputs import Overwrite, Plot


def bench(
    model: Annotated[str, typer.Option(help="Model, e.g. best.safetensors.")],
    struct: Annotated[
        Path | None,
        typer.Option(help="Crystal (is repeated) or molecule; by default ASE's crystal."),
    ] = None,
    atoms: Annotated[
        list[int] | None,
        typer.Option(help="Atoms at least, once for each size; 64, 512 and 4096 by default."),
    ] = None,
    dtype: Annotated[str, typer.Option(help="float32 or float64 (CPU).")] = "float32",
    products: Annotated[
        bool, typer.Option("--products/--no-products", help="Time Hessian-vector products too.")
    ] = True,
    seconds: Annotated[float, typer.Option(help="For each size and kind of call.")] = 2.0,
    out: Annotated[
        Path | None, typer.Option(help="Folder for NAME-bench.json and pictures.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="What file names begin with; the formula by default.")
    ] = None,
    plot: Plot = True,
    overwrite: Overwrite = False,
) -> None:
    """Time energy and forces, and Hessian-vector products, for systems of several sizes.

    Calls go through the calculator, as those of ASE's own dynamics; `mlpot md` is faster.
    """
    from rich.console import Console

    from mlpot import workflows
    from mlpot.calculators import MLPotCalculator

    console = Console()
    workflows.bench(
        MLPotCalculator(model, dtype=dtype),
        None if struct is None else workflows.read_structure(struct),
        atoms or (64, 512, 4096),
        products=products,
        seconds=seconds,
        out=out,
        name=name,
        plot=plot,
        overwrite=overwrite,
        console=console,
    )
    if out is not None:
        console.print(f"Written to {out}", highlight=False, soft_wrap=True)
