"""``mlpot train``: from a configuration file to a potential."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def _print_help(context, wanted: bool) -> bool:  # no annotation: Typer then passes the context
    if not wanted:
        return wanted
    from rich.console import Console

    from mlpot.training.config import TrainConfig
    from mlpot.training.keys import key_list

    text = context.get_help()  # with rich it is printed already, and empty
    if text:
        typer.echo(text)
    Console().print(key_list(TrainConfig))
    raise typer.Exit


def _print_schema(wanted: bool) -> bool:
    if not wanted:
        return wanted
    from mlpot.training.config import TrainConfig

    typer.echo(json.dumps(TrainConfig.model_json_schema(), indent=2))
    raise typer.Exit


def train(
    config: Annotated[Path, typer.Argument(help="YAML file with the keys below.")],
    out: Annotated[
        str | None, typer.Option(help="Folder of the run, instead of the key out.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a run that lies in the folder.")
    ] = False,
    schema: Annotated[
        bool,
        typer.Option(
            "--schema",
            callback=_print_schema,
            is_eager=True,
            help="Print the JSON schema of the configuration, for editors, and exit.",
        ),
    ] = False,
    show_help: Annotated[
        bool,
        typer.Option(
            "--help",
            "-h",
            callback=_print_help,
            is_eager=True,
            help="Show this message with all keys and exit.",
        ),
    ] = False,
) -> None:
    """Train a potential as a configuration file says.

    Writes best.safetensors (the model), last.safetensors (for mlpot resume)
    and report.html (errors, curves, parity plots) into the folder of the run.
    """
    from rich.console import Console

    from mlpot.training import Interrupted, load_config
    from mlpot.training import train as run

    settings = load_config(config)
    if out is not None:
        settings = settings.model_copy(update={"out": out})
    try:
        run(settings, overwrite=overwrite, console=Console())
    except Interrupted as stop:
        typer.echo(f"mlpot: {stop}", err=True)
        raise typer.Exit(stop.exit_code) from None
