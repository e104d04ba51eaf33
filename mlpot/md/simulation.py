"""A run in stages, that can be stopped at any time and goes on as if it had not been."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import numpy as np

from mlpot._signals import SignalWatch
from mlpot.models import Potential
from mlpot.units import KB

from .beginning import (
    check_restart,
    checked_system,
    first_state,
    make_system,
    other_run,
    with_drawn_velocities,
)
from .committee import Committee
from .config import MDConfig, Stage
from .engine import Engine, make_pairs
from .frame import Frame
from .readings import readings
from .recording import Recording
from .restart import Progress, load_restart
from .run_files import FINAL, RESTART, is_complete
from .state import State
from .stopped_run import stopped_run
from .structure import Structure
from .system import System
from .watch import Watch

if TYPE_CHECKING:
    from rich.console import Console


class Simulation:
    """A run of `mlpot md`.

    Args:
        config: of the run.
        structure: what it begins with.
        potential: in the precision of the configuration.
        folder: for its files; exists.
        console: of rich, or None.
        closest: Angstrom, closest pair in the potential's training data, where known.
        members: potentials that watch the run, see the section `committee`.
    """

    def __init__(
        self,
        config: MDConfig,
        structure: Structure,
        potential: Potential,
        folder: Path,
        console: Console | None = None,
        closest: float | None = None,
        members: Sequence[Potential] = (),
    ) -> None:
        self.config, self.structure, self.potential = config, structure, potential
        self.folder, self._console = folder, console
        self.progress = Progress()
        self._before_files: Callable[[], None] = lambda: None
        self._watch = Watch(config, closest, console)
        self._committee: Committee | None = None
        if config.committee is not None:
            self._committee = Committee(config.committee, members, config.neighbors)
        n_atoms = len(structure.numbers)
        self._recording = Recording(config, folder, n_atoms, console, self._committee)
        self._resumed: Progress | None = None
        # The first signal ends the run after the block of steps that is under way.
        self._signals = SignalWatch()
        self._good: tuple[int, float, System, State] | None = None
        self._reference = np.zeros(config.replicas)

    def run(
        self, resume: bool = False, before_files: Callable[[], None] = lambda: None
    ) -> dict[str, Any]:
        """Take all steps that are left; returns the summary that is also written.

        Args:
            resume: go on from the restart file in the folder.
            before_files: called once it is clear that the run can start, before its files are
                made.

        Raises:
            StoppedRun: energies or atoms ran away.
            ValueError: the structure cannot be started from, or there is nothing to resume.
        """
        double = self.config.dtype == "float64"
        with mx.stream(mx.cpu) if double else contextlib.nullcontext():
            return self._run(resume, before_files)

    def _run(self, resume: bool, before_files: Callable[[], None]) -> dict[str, Any]:
        config, stages = self.config, self.config.stages
        self._before_files = before_files
        mx.reset_peak_memory()
        state: State | None = None
        if resume:
            state, self.progress = load_restart(self.folder / RESTART)
            self._resumed = self.progress
            if self.progress.stage >= len(stages):
                if is_complete(self.folder):
                    raise ValueError(
                        f"the run in {str(self.folder)!r} has reached its end already: another "
                        f"begins where it ended with --struct {self.folder / FINAL} "
                        "--keep-velocities and another --out"
                    )
                # Only its last files are missing, e.g. for want of room.
                end = {"stage": len(stages) - 1, "stage_step": stages[-1].steps}
                self.progress = replace(self.progress, **end)
        system = checked_system(config, self.structure, self.progress.stage)
        search = make_pairs(system, self.potential.cutoff, config.skin, config.neighbors)
        if state is None:
            state = first_state(config, self.structure, system)
        else:
            check_restart(config, self.progress, state, system)
        problem: str | None = None
        interrupted: KeyboardInterrupt | None = None
        begin = 0
        with self._recording.bar, self._signals:
            try:
                for number in range(self.progress.stage, len(stages)):
                    begin = self.progress.step - self.progress.stage_step
                    self._recording.bar.expect(self.progress.step, config.steps_left(self.progress))
                    system = make_system(config, self.structure, number)
                    integrator = stages[number].integrator(system, config.timestep)
                    engine = Engine(system, self.potential, integrator, search)
                    state = self._enter(stages[number], system, engine, state)
                    try:
                        state, problem = self._blocks(stages[number], system, engine, state)
                    finally:
                        self._recording.totals.add_engine(engine)
                    if problem is not None:
                        break
                    if "fmax" in state.extra:
                        self._tell(
                            self._recording.totals.add_relaxation(
                                stages[number], np.array(state.extra["fmax"])
                            )
                        )
                    self.progress = replace(self.progress, stage=number + 1, stage_step=0)
                    self._checkpoint(state)
                    self._recording.bar.expect(self.progress.step, config.steps_left(self.progress))
            except KeyboardInterrupt as error:
                problem, interrupted = "interrupted", error
                if not self._recording.is_open:
                    raise
        return self._finish(system, problem, interrupted, begin)

    def _enter(self, stage: Stage, system: System, engine: Engine, state: State) -> State:
        """The first state of a stage, or of its part that is left."""
        given = state
        try:
            if self.progress.stage_step == 0:
                state = self._prepared(stage, system, state)
                state = engine.start(state)
            else:
                mx.eval(engine.look(state))
                engine.forget()
            self._reference = engine.reference_energy(state)
            stress = engine.integrator.stress
            found = readings(stage, engine.look(state), self._reference, stress)
            engine.forget()
            state = engine.recall(state)
            wrong = self._watch.energies(self.progress.step, found)
        except KeyError as error:
            raise other_run(f"no {error} as {stage.label} needs it") from error
        except (ValueError, RuntimeError) as error:
            raise ValueError(f"molecular dynamics cannot start: {error}") from error
        if wrong is not None and self.progress.step == 0:
            raise ValueError(f"molecular dynamics cannot start: {wrong} in the given structure")
        self._watch.begin(system, state)
        self._good = (self.progress.step, self.progress.time, system, state)
        if not self._recording.is_open:
            # Only now: a run that cannot start changes no file.
            self._before_files()
            frame = Frame.of(*self._good, self._reference)
            self._recording.open(frame, self._resumed, self._watch)
            if self._resumed is None:
                self._note(system, state, 0, self.progress.time, found, 0.0)
                self._recording.submit()
                # As it was before the stage began, as restart files between stages are.
                self._checkpoint(given)
        return state

    def _prepared(self, stage: Stage, system: System, state: State) -> State:
        """A state as a stage begins with it: old thermostats forgotten, perhaps new velocities."""
        config = self.config
        earlier = config.stages[: self.progress.stage]
        moved = any(one.ensemble != "minimise" for one in earlier)
        if stage.ensemble != "minimise" and not moved and not config.keep_velocities:
            warmth = config.temperatures(stage, 0.0)
            state = with_drawn_velocities(config, self.structure, system, state, warmth)
        kept = {name: array for name, array in state.extra.items() if name == "images"}
        return replace(state, extra=kept, kT=self._kT(stage, 0, system))

    def _blocks(
        self, stage: Stage, system: System, engine: Engine, state: State
    ) -> tuple[State, str | None]:
        """Take the steps of a stage that are left; returns why it had to stop, if it had to."""
        config = self.config
        dt = 0.0 if stage.ensemble == "minimise" else stage.timestep or config.timestep
        while self.progress.stage_step < stage.steps:
            begin = self.progress
            if self._signals.received is not None and begin.stage_step > 0:
                self._checkpoint(engine.marked(state))
                raise KeyboardInterrupt
            to_restart = config.restart_interval - begin.step % config.restart_interval
            steps = min(config.block, stage.steps - begin.stage_step, to_restart)
            state = replace(state, kT=self._kT(stage, begin.stage_step, system))
            started = time.perf_counter()
            try:
                state, seen = engine.block(state, steps, self._recording.wanted_after(begin.step))
            except (ValueError, RuntimeError) as error:
                return state, str(error)
            took = time.perf_counter() - started
            self._recording.totals.add_time(steps, took, dt)
            for k, (found, then) in seen.items():
                values = readings(stage, found, self._reference, engine.integrator.stress)
                wrong = self._watch.energies(begin.step + k, values)
                if wrong is None and k == steps:
                    wrong = self._watch.lost(system, then)
                if wrong is not None:
                    self.progress = replace(begin, step=begin.step + k)
                    return state, wrong
                moment = begin.time + k * dt
                self._note(system, then, begin.step + k, moment, values, steps / took)
                wrong = self._asked(begin.step + k, moment, system, then)
                if wrong is not None:
                    self.progress = replace(begin, step=begin.step + k)
                    return state, wrong
            self._recording.submit()
            self.progress = replace(
                begin,
                step=begin.step + steps,
                stage_step=begin.stage_step + steps,
                time=begin.time + steps * dt,
            )
            self._good = (self.progress.step, self.progress.time, system, state)
            if "fmax" in state.extra and np.all(np.array(state.extra["fmax"]) <= stage.fmax):
                break
            if self.progress.step % config.restart_interval == 0:
                self._checkpoint(state)
                # A run that goes on from this file has a new list, too.
                engine.forget()
        return state, None

    def _tell(self, warning: str | None) -> None:
        if warning is not None and self._console is not None:
            self._console.print(f"Warning: {warning}.")

    def _asked(self, step: int, moment: float, system: System, state: State) -> str | None:
        """What the committee says of a step, if it is asked."""
        if self._committee is None or not self._committee.looks_at(step):
            return None
        return self._committee.look(step, moment, system, state, self._reference)

    def _note(
        self,
        system: System,
        state: State,
        step: int,
        moment: float,
        values: dict[str, np.ndarray],
        speed: float,
    ) -> None:
        number = self.progress.stage
        self._recording.note(number, system, state, step, moment, values, self._reference, speed)

    def _checkpoint(self, state: State) -> None:
        self.progress = self._recording.checkpoint(state, self.progress)

    def _finish(
        self, system: System, problem: str | None, interrupted: Any, begin: int
    ) -> dict[str, Any]:
        assert self._good is not None
        good, step = Frame.of(*self._good, self._reference), self.progress.step
        summary = self._recording.finish(good, step, problem, self._watch, system, begin)
        if interrupted is not None:
            raise interrupted
        if problem is not None:
            stage = self.config.stages[self.progress.stage]
            dt = None if stage.ensemble == "minimise" else stage.timestep or self.config.timestep
            saved = self._recording.saved_step
            raise stopped_run(problem, self.folder, step, good.step, saved, dt)
        return summary

    def _kT(self, stage: Stage, step: int, system: System) -> mx.array:
        kelvins = self.config.temperatures(stage, step / stage.steps)
        return mx.array(KB * np.array(kelvins), dtype=system.dtype)
