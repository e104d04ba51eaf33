"""``mlpot fetch``: published potentials by name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def fetch(
    name: Annotated[
        str | None,
        typer.Argument(help="Of a published potential; without it they are listed."),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(help="The original file, or the wheel that holds it, if it is here already."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Also write the converted model to this file (.safetensors)."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Fetch again what is here, replace OUT.")
    ] = False,
) -> None:
    """Download a published potential, verify and convert it, and keep it.

    Afterwards its name takes the place of a model file in every command, in mlpot.load and in the
    calculator. Example:

    mlpot fetch nequix-mp-1
    """
    import shutil

    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

    from mlpot.files import temporary_beside
    from mlpot.io import fetching, registry

    if name is None:
        _list()
        return
    entry = registry.published(name)
    if out is not None and out.suffix != ".safetensors":
        raise ValueError(f"OUT is {out}; its name must end in .safetensors")
    if out is not None and out.exists() and not force:
        raise ValueError(f"{out} exists already; add --force to replace it")
    console = Console()

    def say(step: str) -> None:
        console.print(step, highlight=False, soft_wrap=True)

    with Progress(
        BarColumn(), DownloadColumn(), TimeRemainingColumn(), console=console, transient=True
    ) as bar:
        task = bar.add_task(name, total=None, visible=False)
        path = fetching.fetch(
            name,
            file=file,
            force=force,
            progress=lambda done, total: bar.update(
                task, completed=done, total=total, visible=True
            ),
            say=say,
        )
    if out is not None:
        with temporary_beside(out) as temporary:
            shutil.copyfile(path, temporary)
        path = out
    say(f"{name}: {path}")
    for label, text in (("licence", entry.licence), ("cite", entry.citation), ("note", entry.note)):
        if text:
            say(f"  {label:8} {text}")


def _list() -> None:
    from mlpot.io import PUBLISHED
    from mlpot.io.locating import fetched_path

    for entry in PUBLISHED.values():
        here = "here" if fetched_path(entry.name).is_file() else f"{entry.size / 1e6:.0f} MB"
        typer.echo(f"{entry.name:18} {here:>6}  {entry.licence.split(' (')[0]}; {entry.citation}")
