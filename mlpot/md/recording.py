"""What a run shows and writes: progress, log, frames, restart files, summary."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .committee import Committee
from .config import MDConfig
from .frame import Frame
from .log_file import read_log
from .progress import ProgressBar
from .record import Sample
from .restart import Progress
from .run_files import LOG, RunFiles
from .run_summary import Totals
from .state import State
from .system import System
from .watch import Watch

if TYPE_CHECKING:
    from rich.console import Console


class Recording:
    """Of one run, or of a part of it.

    Args:
        config: of the run.
        folder: for its files; exists once they are opened.
        n_atoms: of one replica.
        console: of rich, or None.
        committee: whose files are kept along with the others, or None.

    Attributes:
        totals: for the summary.
        bar: to be entered by the caller.
        saved_step: of the restart file in the folder.
    """

    def __init__(
        self,
        config: MDConfig,
        folder: Path,
        n_atoms: int,
        console: Console | None,
        committee: Committee | None,
    ) -> None:
        self.config, self.folder = config, folder
        self.totals = Totals(config, n_atoms)
        self.bar = ProgressBar(console, config.steps_left(Progress()), config.timestep)
        self.saved_step = 0
        self._committee = committee
        self._files: RunFiles | None = None
        self._waiting: list[tuple[str, tuple]] = []

    @property
    def is_open(self) -> bool:
        """Whether there are files."""
        return self._files is not None

    def open(self, frame: Frame, resumed: Progress | None, watch: Watch) -> None:
        """Make the files, or go on with those of an earlier part of the run."""
        self._files = RunFiles(self.folder, self.config, frame, resumed)
        if resumed is not None:
            self.saved_step = resumed.step
            log = read_log(self.folder / LOG)  # of the part that is kept
            self.totals.recall(log, resumed)
            watch.recall(log, resumed.step)
        if self._committee is not None:
            self._committee.open(self.folder, resumed)

    def wanted_after(self, first: int) -> Callable[[int], bool]:
        """Which steps after one are logged, written, or looked at by the committee."""
        every = {self.config.log_interval, self.config.frame_interval}
        if self.config.committee is not None:
            every.add(self.config.committee.interval)
        return lambda k: any((first + k) % interval == 0 for interval in every)

    def note(
        self,
        number: int,
        system: System,
        state: State,
        step: int,
        moment: float,
        values: dict[str, np.ndarray],
        reference: np.ndarray,
        speed: float,
    ) -> None:
        """Put what is to be written of a step aside, and show it.

        Args:
            number: of the stage.
            system: what moves.
            state: after the step.
            step: its number.
            moment: its time, fs.
            values: observables, see `readings`.
            reference: (n_graphs,), eV, sums of E0.
            speed: steps/s.
        """
        config = self.config
        if step % config.log_interval == 0:
            label = config.stages[number].label
            self._waiting.append(("log", (step, moment, label, values, speed)))
            self.totals.add_sample(moment, number, values)
            shown = ("potential", "kinetic", "total", "temperature")
            first = {name: float(values[name][0]) for name in shown}
            self.bar.show(Sample(step, moment, steps_per_second=speed, **first))
        if config.trajectory and step % config.frame_interval == 0:
            self._waiting.append(("frame", (step, moment, system, state, reference)))

    def submit(self) -> None:
        """Have written what was noted."""
        assert self._files is not None
        self._files.submit(self._waiting)
        self._waiting = []

    def checkpoint(self, state: State, progress: Progress) -> Progress:
        """Write a restart file, after all that belongs to it; progress with lengths of files."""
        assert self._files is not None
        if self._committee is not None:
            progress = self._committee.marked(progress)
        self._files.checkpoint(state, progress)
        self.saved_step = progress.step
        return progress

    def finish(
        self, good: Frame, step: int, problem: str | None, watch: Watch, system: System, begin: int
    ) -> dict:
        """Write the last files.

        Args:
            good: the last good state.
            step: that was reached.
            problem: why the run has not reached its end, if so.
            watch: of the run.
            system: of the last stage.
            begin: first step of the last stage.

        Returns:
            The summary.
        """
        assert self._files is not None
        self._files.close()
        self._files.last_state(good, problem is None)
        summary = self.totals.summary(step, problem, watch)
        if self._committee is not None:
            summary |= self._committee.summary()
        self._files.report(system, summary, begin)
        return summary
