"""``mlpot eval``: errors of a potential on labelled data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_WRITTEN = ("errors.csv", "errors.json", "errors.tex", "elements.csv", "parity.png")
_OF_COMMITTEES = ("disagreement.csv",)


def eval(  # noqa: A001, the name of the verb
    model: Annotated[
        str,
        typer.Argument(
            help="Model, e.g. best.safetensors; a pattern or the folder of a committee for the "
            "mean of several and what they disagree about."
        ),
    ],
    data: Annotated[list[str], typer.Argument(help="Data files; each is a set of its own.")],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for errors.csv, errors.json, errors.tex (LaTeX), elements.csv, parity.png "
            "and, of a committee, disagreement.csv."
        ),
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
    """Print errors on each set, kind of frame (config_type) and element.

    The row mean-only is what energies of isolated atoms and the mean energy
    give, with zero forces: a model that has learnt something is far below it.
    """
    import mlx.core as mx
    from rich.console import Console

    from mlpot import datasets, training
    from mlpot.calculators.members import find_models, load_member
    from mlpot.training.disagreement import disagreement_row, disagreement_table, write_disagreement
    from mlpot.training.element_errors import element_rows, element_table, write_element_errors
    from mlpot.training.evaluate import check_elements, predict_all
    from mlpot.training.latex import write_latex
    from mlpot.training.names import set_names

    if dtype not in ("float32", "float64"):
        raise ValueError(f"dtype is {dtype!r}: give float32 or float64")
    names = (*_WRITTEN, *_OF_COMMITTEES)
    existing = [name for name in names if out is not None and (out / name).exists()]
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
    committee = [load_member(one, dtype) for one in find_models(model)]
    label = "committee" if len(committee) > 1 else Path(model).stem
    sets = {
        name: datasets.read(file, **given) for name, file in zip(set_names(data), data, strict=True)
    }
    console = Console()
    device = mx.Device(mx.cpu) if dtype == "float64" else mx.default_device()
    rows, by_element, shown, disputed = [], [], {}, {}
    with mx.stream(device):
        for frames in sets.values():
            for potential in committee:
                check_elements(potential, frames)
        for name, frames in sets.items():
            with console.status(f"evaluating {name}"):
                said, spread = predict_all(committee, frames, batch_size)
            rows += training.compare(name, frames, said, label)
            by_element += element_rows(name, label, frames, said)
            shown[name] = (frames, said)
            if spread is not None:
                disputed[name] = (frames, said, spread)
    console.print(training.rich_table(rows))
    if len({row.element for row in by_element}) > 1:
        console.print(element_table(by_element))
    if disputed:
        told = [disagreement_row(name, *values) for name, values in disputed.items()]
        console.print(disagreement_table(told))
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        training.write_errors(out, rows)
        write_latex(out, rows)
        write_element_errors(out, by_element)
        if disputed:
            write_disagreement(out, disputed)
        training.write_parity(out / "parity.png", shown)
        written = names if disputed else _WRITTEN
        console.print(f"Written to {out}: {', '.join(written)}", highlight=False, soft_wrap=True)
