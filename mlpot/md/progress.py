"""A progress bar with speed and time left."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from rich.console import Console

    from .record import Sample


class ProgressBar:
    """``with ProgressBar(...) as bar:`` shown on a console, or nothing where there is none.

    Args:
        console: of rich, or None.
        steps: of the whole run.
        timestep: in fs.
    """

    def __init__(self, console: Console | None, steps: int, timestep: float) -> None:
        self._timestep = timestep
        self._progress = None
        if console is not None:
            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                TextColumn("{task.fields[speed]}"),
                console=console,
            )
            self._task = self._progress.add_task("MD", total=steps, speed="")

    def __enter__(self) -> ProgressBar:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(self, *_) -> None:
        if self._progress is not None:
            self._progress.stop()

    def expect(self, done: int, left: int) -> None:
        """Move to a step, after which so many are left: a stage may end before its last one."""
        if self._progress is not None:
            self._progress.update(self._task, completed=done, total=done + left)

    def show(self, sample: Sample) -> None:
        """Move to a logged step."""
        if self._progress is None:
            return
        relaxing = math.isnan(sample.temperature)
        speed = "" if relaxing else f"{sample.temperature:.0f} K"
        if sample.step > 0 and relaxing:
            speed = f"{sample.steps_per_second:.4g} steps/s"
        elif sample.step > 0:
            per_day = sample.steps_per_second * self._timestep * 1e-6 * 86400
            speed += f"  {sample.steps_per_second:.4g} steps/s  {per_day:.3g} ns/day"
        self._progress.update(self._task, completed=sample.step, speed=speed)
