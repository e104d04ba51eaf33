"""Everything that a run needs to go on as if it had not been stopped."""

from __future__ import annotations

import json
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import mlx.core as mx
import numpy as np

from mlpot.files import atomic_write

from .state import State

_VERSION = 1


@dataclass(frozen=True)
class Progress:
    """How far a run and its files are.

    Args:
        step: steps done in all stages.
        stage: number of the stage that this is in.
        stage_step: steps done in that stage.
        time: fs.
        frames: frames in the trajectory.
        trajectory_bytes: length of the trajectory, for formats that are cut there.
        log_bytes: length of the log.
        uncertain_bytes, disagreement_bytes: lengths of the files of a committee.
    """

    step: int = 0
    stage: int = 0
    stage_step: int = 0
    time: float = 0.0
    frames: int = 0
    trajectory_bytes: int = 0
    log_bytes: int = 0
    uncertain_bytes: int = 0
    disagreement_bytes: int = 0


def save_restart(path: Path, state: State, progress: Progress) -> None:
    """Write a state with all its digits; a file of that name is replaced in one step."""
    arrays: Any = {name: np.array(array) for name, array in state.arrays().items()}
    about = json.dumps({"version": _VERSION, **asdict(progress)})
    with atomic_write(path) as file:
        np.savez(file, about=np.frombuffer(about.encode(), np.uint8), **arrays)


def load_restart(path: Path) -> tuple[State, Progress]:
    """Read what `save_restart` wrote.

    Raises:
        ValueError: no such file, or not one of these.
    """
    if not path.is_file():
        raise ValueError(
            f"there is no restart file {str(path)!r}: the run was stopped before it wrote one; "
            "start it anew with --overwrite"
        )
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as found:
            arrays = dict(found.items())
        about = json.loads(arrays.pop("about").tobytes())
        if about.pop("version") != _VERSION:
            raise ValueError("it has another version")
        progress = Progress(**about)
        there = {name: mx.array(array, dtype=_dtype(array)) for name, array in arrays.items()}
        return State.from_arrays(there), progress
    except (OSError, EOFError, KeyError, TypeError, ValueError, BadZipFile, zlib.error) as error:
        raise ValueError(
            f"restart file {str(path)!r} cannot be read ({error}): put back a whole copy of it, or "
            "start the run anew with --overwrite"
        ) from error


def _dtype(array: np.ndarray) -> mx.Dtype:
    return {"float32": mx.float32, "float64": mx.float64, "uint32": mx.uint32}[str(array.dtype)]
