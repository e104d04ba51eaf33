"""The ``mlpot`` command: its verbs, and errors told in one message."""

from __future__ import annotations

import sys
import traceback
from typing import Annotated

import typer

from mlpot import __version__

from .anharmonic import anharmonic
from .bench import bench
from .convert import convert
from .doctor import doctor
from .elastic import elastic
from .eos import eos
from .eval import eval as evaluate
from .export import export
from .fetch import fetch
from .info import info
from .md import md
from .neb import neb
from .phonons import phonons
from .relax import relax
from .resume import resume
from .saddle import saddle
from .select import select
from .singlepoint import singlepoint
from .train import train
from .triples import TriplesCommand
from .vibrations import vibrations

app = typer.Typer(
    name="mlpot",
    help="Equivariant interatomic potentials on Apple's MLX.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="rich",
)


def _print_version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"mlpot {__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="On an error, show where in the code it arose.")
    ] = False,
) -> None:
    """Equivariant interatomic potentials on Apple's MLX."""


# In the order of --help.
for _verb in (train, resume, evaluate, select, singlepoint, relax, md):
    app.command(cls=TriplesCommand)(_verb)
for _verb in (phonons, anharmonic, vibrations, elastic, eos, neb, saddle):
    app.command(cls=TriplesCommand)(_verb)
for _verb in (fetch, convert, export, info, bench, doctor):
    app.command(cls=TriplesCommand)(_verb)


def explain(error: BaseException) -> str:
    """What a user is told about an error: its own message where it was written for them."""
    if isinstance(error, ValueError | ImportError):
        return str(error)
    if isinstance(error, MemoryError):
        told = str(error)  # of NumPy it says how much was wanted
        return f"there is not enough memory{f': {told}' if told else ''}; take less at a time"
    if isinstance(error, KeyError) and error.args:
        key = error.args[0]
        # An error raised for the user holds a sentence, a failed look-up only the key.
        return key if isinstance(key, str) and " " in key else f"missing key {key!r}"
    if isinstance(error, OSError):
        if error.filename is not None and error.strerror:
            return f"{error.strerror}: {error.filename}"
        return str(error)
    return (
        f"{type(error).__name__}: {error}\n"
        "This was not expected. Run the command again with --debug to see where it arose."
    )


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and leave with exit code 0 only on success.

    Args:
        arguments: words after ``mlpot``; those of the process where None.

    Raises:
        SystemExit: always; code 0 on success, 1 on an error, 2 on wrong usage.
    """
    words = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in words
    try:
        # --debug may stand anywhere, before or after the verb.
        app([word for word in words if word != "--debug"])
    except Exception as error:
        if debug:
            traceback.print_exc()
        else:
            typer.secho(f"mlpot: error: {explain(error)}", fg=typer.colors.RED, err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
