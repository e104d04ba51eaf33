"""Where a model lies: a file, or a published potential that was fetched before."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

from mlpot.kernels.native.builder import cache_folder

from .registry import PUBLISHED


def fetched_path(name: str) -> Path:
    """Where a published potential is kept after ``mlpot fetch``."""
    return cache_folder() / "models" / f"{name}.safetensors"


def locate(model: str | os.PathLike[str]) -> Path:
    """The file of a model.

    Args:
        model: a path, or the name of a published potential. A file of that name comes first.

    Raises:
        FileNotFoundError: there is no such file; for a published potential with the command that
            brings it. Nothing is downloaded here.
    """
    path = Path(model)
    if path.is_file():
        return path
    name = str(model)
    if name in PUBLISHED:
        fetched = fetched_path(name)
        if fetched.is_file():
            return fetched
        raise FileNotFoundError(
            f"{name} is a published potential that is not on this machine yet: run mlpot fetch "
            f"{name} (once; {PUBLISHED[name].size / 1e6:.0f} MB)"
        )
    close = difflib.get_close_matches(name, PUBLISHED, n=1)
    hint = f"; did you mean the published potential {close[0]}?" if close else ""
    raise FileNotFoundError(f"model file {name!r} does not exist{hint}")
