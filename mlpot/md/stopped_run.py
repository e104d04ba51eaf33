"""What is said of a run that had to be stopped."""

from __future__ import annotations

import shlex
from pathlib import Path

from .file_names import LAST_GOOD, UNCERTAIN


class StoppedRun(ValueError):  # noqa: N818, says what happened
    """A run was stopped because its energies or atoms ran away; the message says where it is."""


def stopped_run(
    problem: str, folder: Path, step: int, good: int, saved: int, timestep: float | None
) -> StoppedRun:
    """The error of a run that ran away, with what to do.

    Args:
        problem: why it was stopped.
        folder: of the run.
        step: at which it was stopped.
        good: step of the last good state.
        saved: step of the restart file.
        timestep: fs, of the stage; None in a relaxation.
    """
    told = (
        f"molecular dynamics stopped at step {step}: {problem}. The last good state, of step "
        f"{good}, is in {folder / LAST_GOOD}. "
    )
    if problem.startswith("the committee"):
        return StoppedRun(told + f"Frames to label are in {folder / UNCERTAIN}.")
    told += "Try a shorter time step, a relaxed structure, or a potential trained on such states."
    if timestep is not None:
        told += (
            f" With half the time step the run goes on from step {saved} by: mlpot md --resume "
            f"{shlex.quote(str(folder))} --timestep {0.5 * timestep:g}"
        )
    return StoppedRun(told)
