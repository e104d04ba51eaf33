"""Which model files a name stands for: one, those of a pattern, the members of a committee."""

from __future__ import annotations

import glob
import os
from pathlib import Path

from .locating import locate


def model_paths(name: str | os.PathLike[str]) -> list[str]:
    """Absolute paths of the model files that a name stands for.

    Args:
        name: a file, a pattern with ``*``, ``?`` or ``[]``, the folder of a trained committee
            (``member*/best.safetensors``), or the name of a published potential.

    Raises:
        FileNotFoundError: no file fits a pattern, a folder holds no committee, or a published
            potential was not fetched yet.
    """
    path = Path(name).expanduser()
    text = str(path)
    if path.is_dir():
        members = sorted(path.glob("member*/best.safetensors"))
        if not members:
            raise FileNotFoundError(
                f"the folder {text!r} holds no committee (member*/best.safetensors): name a model "
                "in it, such as best.safetensors"
            )
        return [str(member.absolute()) for member in members]
    if path.exists() or not glob.has_magic(text):
        return [str(locate(path).absolute())]
    paths = sorted(glob.glob(text, recursive=True))
    if not paths:
        raise FileNotFoundError(f"no model file fits the pattern {text!r}")
    return [str(Path(found).absolute()) for found in paths]
