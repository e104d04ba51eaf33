"""The options of verbs that relax a structure on the way."""

from __future__ import annotations

from typing import Annotated

import typer

Steps = Annotated[int, typer.Option(help="Steps of a relaxation at most.")]
