"""The options of verbs that write the files of a result into a folder."""

from __future__ import annotations

from typing import Annotated

import typer

NameOfStruct = Annotated[
    str | None, typer.Option(help="What file names begin with; that of STRUCT by default.")
]
Plot = Annotated[bool, typer.Option("--plot/--no-plot", help="Draw the picture.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace files where they exist.")]
