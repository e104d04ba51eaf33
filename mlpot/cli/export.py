"""``mlpot export``: a potential as a function for C++, Swift and other hosts of MLX."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .outputs import Overwrite


def export(
    model: Annotated[Path, typer.Argument(help="Model file, or name of a fetched published one.")],
    out: Annotated[Path, typer.Argument(help="File to write (.mlxfn); .json is put beside it.")],
    atoms: Annotated[
        int | None, typer.Option(help="Atoms that the function takes, unused ones included.")
    ] = None,
    edges: Annotated[
        int | None, typer.Option(help="Edges, both directions counted, unused ones included.")
    ] = None,
    struct: Annotated[
        Path | None,
        typer.Option(help="Structure to size it for: its atoms, and a fifth more edges."),
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Export energy, forces and virial as a function of fixed shapes.

    It is run with MLX alone: mx.import_function in Python, mlx::core::import_function in C++. The
    host makes the neighbour list; the JSON file says what goes in and out. Example:

    mlpot export nequix-mp-1 silicon.mlxfn --struct silicon.cif
    """
    import mlpot
    from mlpot import graph, workflows
    from mlpot.io import exporting

    for path in (out, out.with_suffix(".json")):
        if path.exists() and not overwrite:
            raise ValueError(f"{path} exists already; add --overwrite to replace it")
    potential = mlpot.load(model)
    if struct is not None:
        structure = workflows.read_structure(struct)
        potential.check_elements(int(z) for z in structure.numbers)
        senders, _, _ = graph.neighbor_list(
            structure.positions, structure.cell.array, structure.pbc, potential.cutoff
        )
        atoms = atoms or len(structure)
        edges = edges or max(1, round(1.2 * len(senders)))
    if atoms is None or edges is None:
        raise ValueError("give --atoms and --edges, or a structure to size the function for")
    described = exporting.export_potential(out, potential, atoms, edges)
    typer.echo(f"wrote {out} ({out.stat().st_size / 1e6:.2f} MB): {atoms} atoms, {edges} edges")
    typer.echo(f"wrote {described}: inputs, outputs, E0s")
