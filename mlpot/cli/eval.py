"""``mlpot eval``: errors of a potential on labelled data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_WRITTEN = ("errors.csv", "errors.json", "parity.png")


def eval(  # noqa: A001, the name of the verb
    model: Annotated[Path, typer.Argument(help="Model, e.g. best.safetensors.")],
    data: Annotated[list[str], typer.Argument(help="Data files; each is a set of its own.")],
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for errors.csv, errors.json and parity.png."),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace these files where they exist.")
    ] = False,
    batch_size: Annotated[int, typer.Option(min=1, help="Frames computed at once.")] = 8,
    dtype: Annotated[str, typer.Option(help="float32 or float64.")] = "float32",
    energy_key: Annotated[str | None, typer.Option(help="Key of energies.")] = None,
    forces_key: Annotated[str | None, typer.Option(help="Key of forces.")] = None,
    stress_key: Annotated[str | None, typer.Option(help="Key of stresses.")] = None,
    virials_key: Annotated[str | None, typer.Option(help="Key of virials.")] = None,
    energy_unit: Annotated[str | None, typer.Option(help="eV, kcal/mol, Hartree, ...")] = None,
    length_unit: Annotated[str | None, typer.Option(help="Angstrom, Bohr, nm.")] = None,
    forces_unit: Annotated[str | None, typer.Option(help="Such as Hartree/Bohr.")] = None,
    stress_unit: Annotated[str | None, typer.Option(help="eV/Angstrom^3, GPa, kbar, ...")] = None,
) -> None:
    """Print errors on each set and kind of frame (config_type).

    The row mean-only is what energies of isolated atoms and the mean energy
    give, with zero forces: a model that has learnt something is far below it.
    """
    import mlx.core as mx
    from rich.console import Console

    import mlpot
    from mlpot import datasets, training
    from mlpot.training.evaluate import check_elements
    from mlpot.training.names import set_names

    if dtype not in ("float32", "float64"):
        raise ValueError(f"dtype is {dtype!r}: give float32 or float64")
    existing = [name for name in _WRITTEN if out is not None and (out / name).exists()]
    if existing and not overwrite:
        raise ValueError(
            f"{out} holds {', '.join(existing)} already: give another --out or --overwrite"
        )
    options = {
        "energy_key": energy_key,
        "forces_key": forces_key,
        "stress_key": stress_key,
        "virials_key": virials_key,
        "energy_unit": energy_unit,
        "length_unit": length_unit,
        "forces_unit": forces_unit,
        "stress_unit": stress_unit,
    }
    given = {name: value for name, value in options.items() if value is not None}
    potential = mlpot.load(model)
    sets = {
        name: datasets.read(file, **given) for name, file in zip(set_names(data), data, strict=True)
    }
    console = Console()
    device = mx.Device(mx.cpu) if dtype == "float64" else mx.default_device()
    rows, shown = [], {}
    with mx.stream(device):
        if dtype == "float64":
            potential.set_dtype(mx.float64)
        for frames in sets.values():
            check_elements(potential, frames)
        for name, frames in sets.items():
            with console.status(f"evaluating {name}"):
                said = training.predict(potential, frames, batch_size)
            rows += training.compare(name, frames, said, model.stem)
            shown[name] = (frames, said)
    console.print(training.rich_table(rows))
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        training.write_errors(out, rows)
        training.write_parity(out / "parity.png", shown)
        console.print(f"Written to {out}: {', '.join(_WRITTEN)}", highlight=False, soft_wrap=True)
