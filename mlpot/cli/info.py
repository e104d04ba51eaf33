"""``mlpot info``: what is in a model file or a data set."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from mlpot.models import PotentialConfig

_ENERGIES_A_LINE = 4
#: Metadata of published potentials.
_ORIGIN = ("name", "source", "licence", "citation", "training_data", "note")


def info(
    file: Annotated[
        Path,
        typer.Argument(
            help="Model (.safetensors, or the name of a fetched published one), or data in any "
            "format that mlpot train reads, also a pattern in quotation marks."
        ),
    ],
    parameters: Annotated[
        bool,
        typer.Option(
            "--parameters", help="List the names of a model's parameters, for the key freeze."
        ),
    ] = False,
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Compare all numbers of HDF5 data with their digests."),
    ] = False,
    energy_unit: Annotated[
        str | None, typer.Option(help="Unit of energies in the data: eV, kcal/mol, Hartree, ...")
    ] = None,
    length_unit: Annotated[
        str | None, typer.Option(help="Unit of lengths in the data: Angstrom, Bohr, nm.")
    ] = None,
) -> None:
    """Print what a model or a data set holds.

    Of a model: origin and terms, architecture, cutoff, elements, size, training, configuration,
    metadata and E0s. Of data:
    frames, elements, labels, their ranges and what looks suspicious.
    """
    # Names of published potentials have no suffix; a missing file with one is a mistyped name.
    pattern = glob.has_magic(str(file))
    if file.suffix == ".safetensors" or not (file.exists() or file.suffix or pattern):
        if verify:
            raise ValueError(f"{file}: --verify is for data; a model is checked when it is read")
        _describe_model(file, parameters)
        return
    if parameters:
        raise ValueError(f"{file}: --parameters is for models")
    from mlpot import datasets
    from mlpot.datasets.reading import expand

    if verify:
        for path in expand(file):
            with datasets.HDF5Dataset(path) as stored:
                stored.verify()
    census = datasets.Census()
    for frame in datasets.iterate(file, energy_unit=energy_unit, length_unit=length_unit):
        census.add(frame)
    typer.echo(census.summary())
    if verify:
        typer.echo("all digests are those that were written")


def _describe_model(model: Path, parameters: bool) -> None:
    from mlpot import io
    from mlpot.elements import format_elements, symbol

    arrays, metadata = io.read_file(model)
    potential = io.build_potential(arrays, metadata, str(model))
    config = potential.config
    n_parameters = sum(array.size for array in arrays.values())
    known = potential.numbers
    count = f"{len(known)}: " if len(known) > 8 else ""
    _row("file", f"{model} (format version {metadata['format_version']})")
    for name in _ORIGIN:
        if name in metadata:
            _row(name.replace("_", " "), metadata[name])
    _row("architecture", _architecture(config))
    _row("cutoff", f"{potential.cutoff:g} Angstrom")
    _row("elements", f"{count}{format_elements(known)}")
    _row("parameters", f"{n_parameters} in {len(arrays)} arrays")
    if "train_file" in metadata:
        _row("trained on", metadata["train_file"])
    if "valid_loss" in metadata:
        epoch = f" in epoch {metadata['epoch']}" if "epoch" in metadata else ""
        loss = float(metadata["valid_loss"])
        _row("accuracy", f"validation loss {loss:.4g}{epoch}; errors by: mlpot eval")
    if parameters:
        for name, array in sorted(arrays.items()):
            typer.echo(f"  {name} {tuple(array.shape)}")
    typer.echo("configuration")
    for name, value in config.model_dump(exclude={"E0s", "numbers", "cutoff"}).items():
        if isinstance(value, dict):
            typer.echo(f"  {name}")
            for inner, one in value.items():
                typer.echo(f"    {inner}: {one}")
        else:
            typer.echo(f"  {name}: {value}")
    told = ("format", "format_version", "config", "train_file", "valid_loss", "epoch", *_ORIGIN)
    further = {k: v for k, v in metadata.items() if k not in told}
    typer.echo("metadata" if further else "metadata        none")
    for name, text in sorted(further.items()):
        typer.echo(f"  {name}: {text}")
    typer.echo("E0s (eV)")
    energies = [
        f"{symbol(number):<2} {config.E0s[number]:16.8f}"
        if number in config.E0s
        else f"{symbol(number):<2} {'0 (not given)':>16}"
        for number in known
    ]
    for first in range(0, len(energies), _ENERGIES_A_LINE):
        typer.echo("  " + "    ".join(energies[first : first + _ENERGIES_A_LINE]))


def _row(name: str, text: str) -> None:
    typer.echo(f"{name:15} {text}")


def _architecture(config: PotentialConfig) -> str:
    """The backbone in a line; all of it stands in the configuration."""
    model: Any = config.model
    features = getattr(model, "irreps", None) or f"{model.channels} channels, lmax {model.lmax}"
    repulsion = "; ZBL repulsion" if config.zbl else ""
    return f"{model.name}: {model.layers} layers of {features}{repulsion}"
