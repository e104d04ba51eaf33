"""``mlpot resume``: go on with a run that was interrupted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def resume(
    run: Annotated[Path, typer.Argument(help="Folder of the run, with last.safetensors.")],
) -> None:
    """Go on with an interrupted training run, exactly as if it had not been interrupted."""
    from rich.console import Console

    from mlpot.training import Interrupted
    from mlpot.training import resume as go_on

    try:
        go_on(run, console=Console())
    except Interrupted as stop:
        typer.echo(f"mlpot: {stop}", err=True)
        raise typer.Exit(stop.exit_code) from None
