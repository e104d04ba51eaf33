"""Names of sets of frames."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def set_names(files: Sequence[str]) -> list[str]:
    """Names of sets from names of files: without folder and endings, all different."""
    names = [Path(file).name.split(".")[0] for file in files]
    return [
        name if names.count(name) == 1 else f"{name}-{names[:index].count(name) + 1}"
        for index, name in enumerate(names)
    ]
