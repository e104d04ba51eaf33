"""Running molecular dynamics step by step, logged and watched."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

from mlpot.units import KB

from . import output
from .ase_bridge import TrajectoryFile, dynamics, save, snapshot, working_copy
from .guard import Guard, UnstableDynamics
from .progress import ProgressBar
from .rdf import PairDistances
from .record import Record, Sample
from .settings import Settings
from .velocities import degrees_of_freedom, maxwell_boltzmann

if TYPE_CHECKING:
    from ase import Atoms
    from rich.console import Console

# Frames that count for the pair distances: enough for a smooth curve, few enough to cost nothing.
_DISTANCE_FRAMES = 200


def run_md(
    atoms: Atoms,
    ensemble: str = "nve",
    *,
    temperature: float = 300.0,
    timestep: float = 0.5,
    steps: int = 1000,
    friction: float = 10.0,
    seed: int = 0,
    log_interval: int = 10,
    trajectory: str | Path | None = None,
    trajectory_interval: int | None = None,
    out: str | Path | None = None,
    overwrite: bool = False,
    keep_velocities: bool = False,
    fix_com: bool = True,
    max_temperature: float = 10_000.0,
    lost_distance: float = 6.0,
    console: Console | None = None,
) -> Record:
    """Run molecular dynamics with the calculator of ``atoms``.

    The integrators are ASE's velocity Verlet and Langevin. Velocities are drawn from the
    Maxwell-Boltzmann distribution, without momentum of the whole and, where nothing is periodic,
    without rotation. The same seed gives the same trajectory.

    Args:
        atoms: structure with a calculator; it is not changed, see ``Record.atoms``.
        ensemble: "nve" or "langevin".
        temperature: of the first velocities and of the bath, in K. A structure at a minimum
            gives half of it to its potential energy in an NVE run.
        timestep: in fs.
        steps: number of steps.
        friction: of the bath in 1/ps.
        seed: of velocities and random forces.
        log_interval: steps between logged samples.
        trajectory: file for frames, .traj or .extxyz; by default ``trajectory.traj`` in ``out``.
        trajectory_interval: steps between frames; as ``log_interval`` by default.
        out: folder for the log, which grows while the run goes on, the last state, pictures and
            a summary. Nothing is written where None, except the trajectory if one is named.
        overwrite: replace earlier results in ``out`` and an earlier trajectory.
        keep_velocities: go on with those of ``atoms`` instead of drawing new ones.
        fix_com: hold the centre of mass, unless there are other constraints. Choose False for
            atoms in an outer field.
        max_temperature: the run is stopped above it, in K.
        lost_distance: the run is stopped when an atom is farther than this from all others, in
            Angstrom, unless it began so.
        console: of rich, for a progress bar.

    Returns:
        Samples, last state, pair distances and the files written.

    Raises:
        ValueError: a setting that makes no sense, or results in the way.
        UnstableDynamics: energy, temperature or atoms ran away; the last good state is in
            ``record.atoms`` of the error and in ``last_good.extxyz`` of ``out``.
    """
    every = log_interval if trajectory_interval is None else trajectory_interval
    settings = Settings(
        ensemble=ensemble,
        temperature=temperature,
        timestep=timestep,
        steps=steps,
        friction=friction,
        seed=seed,
        log_interval=log_interval,
        trajectory_interval=every,
        max_temperature=max_temperature,
        lost_distance=lost_distance,
    )
    folder = None if out is None else Path(out)
    path = None if trajectory is None else Path(trajectory)
    if folder is not None:
        output.check_folder(folder, overwrite)
        if path is None:
            path = folder / output.TRAJECTORIES[0]
    if trajectory is not None and path is not None:
        TrajectoryFile.check(path)
        if folder is not None and path.resolve() in output.own_files(folder):
            raise ValueError(
                f"trajectory {str(path)!r}: the run writes another file of that name; give another"
            )
        if path.exists() and not overwrite:
            raise ValueError(f"trajectory {str(path)!r} exists: name another or overwrite it")
    run = _Run(working_copy(atoms, fix_com), settings, keep_velocities)
    if folder is not None:  # only now, when the first forces are known to be good
        output.claim_folder(folder)
    return run.go(folder, path, console)


class _Run:
    """State of a run; making it computes the first forces and changes no file."""

    def __init__(self, atoms: Atoms, settings: Settings, keep_velocities: bool) -> None:
        self.atoms, self.settings = atoms, settings
        rng = np.random.default_rng(settings.seed)
        positions, masses = atoms.get_positions(), atoms.get_masses()
        cell, pbc = np.array(atoms.cell), np.array(atoms.pbc)
        molecule = not pbc.any()
        if not keep_velocities:
            atoms.set_momenta(
                maxwell_boltzmann(masses, positions, settings.temperature, rng, rotation=molecule)
            )
        self.n_free = self._degrees_of_freedom(molecule and not keep_velocities)
        self.guard = Guard(positions, cell, pbc, settings.max_temperature, settings.lost_distance)
        distances = PairDistances(atoms.numbers, cell, pbc)
        self.record = Record(settings, len(atoms), atoms, distances)
        wrong = self._wrong(0)
        if wrong is not None:
            raise ValueError(f"molecular dynamics cannot start: {wrong} in the given structure")
        self.integrator = dynamics(atoms, settings, rng)
        self.good = snapshot(atoms)
        self.step = 0
        self.cause: Exception | None = None

    def _degrees_of_freedom(self, no_rotation: bool) -> int:
        """Those that hold kinetic energy: a bath brings rotation back, NVE does not."""
        free = int(self.atoms.get_number_of_degrees_of_freedom())
        whole = [type(c).__name__ == "FixCom" for c in self.atoms.constraints]
        if self.settings.ensemble == "nve" and all(whole) and whole:
            masses, positions = self.atoms.get_masses(), self.atoms.get_positions()
            free = degrees_of_freedom(masses, positions, rotation=no_rotation)
        return max(free, 1)

    def _temperature(self) -> float:
        return float(2 * self.atoms.get_kinetic_energy() / (self.n_free * KB))

    def _wrong(self, step: int) -> str | None:
        atoms, settings = self.atoms, self.settings
        wrong = self.guard.energies(
            float(atoms.get_potential_energy()),
            self._temperature(),
            atoms.get_forces(apply_constraint=False),
            atoms.positions,
        )
        if wrong is None and (step % settings.log_interval == 0 or step == settings.steps):
            wrong = self.guard.lost(atoms.get_positions())
        return wrong

    def _sample(self, step: int, speed: float) -> Sample:
        potential = float(self.atoms.get_potential_energy())
        kinetic = float(self.atoms.get_kinetic_energy())
        sample = Sample(
            step,
            float(step * self.settings.timestep),
            potential,
            kinetic,
            potential + kinetic,
            self._temperature(),
            speed,
        )
        self.record.samples.append(sample)
        return sample

    def go(self, folder: Path | None, path: Path | None, console: Console | None) -> Record:
        record = self.record
        stopped: str | None = None
        interrupt: KeyboardInterrupt | None = None
        with ExitStack() as stack:
            log = None
            if folder is not None:
                record.files[output.LOG] = folder / output.LOG
                log = stack.enter_context(open(folder / output.LOG, "w", encoding="utf-8"))
                log.write(Sample.header() + "\n")
            frames = None
            if path is not None:
                record.files["trajectory"] = path
                frames = TrajectoryFile(path)
                stack.callback(frames.close)
            bar = stack.enter_context(
                ProgressBar(console, self.settings.steps, self.settings.timestep)
            )
            try:
                stopped = self._steps(log, frames, bar)
            except KeyboardInterrupt as error:
                stopped, interrupt = "interrupted", error
        record.atoms = self.good
        if folder is not None:
            name = output.FINAL if stopped is None else output.LAST_GOOD
            save(folder / name, self.good)
            record.files[name] = folder / name
            output.write_report(folder, record, stopped)
        if interrupt is not None:
            raise interrupt
        if stopped is not None:
            raise UnstableDynamics(self._advice(stopped, folder), record) from self.cause
        return record

    def _steps(
        self, log: IO[str] | None, frames: TrajectoryFile | None, bar: ProgressBar
    ) -> str | None:
        """Take all steps; returns what is wrong where the run had to be stopped."""
        settings, record = self.settings, self.record
        n_samples = settings.steps // settings.log_interval
        thin = max(1, n_samples // _DISTANCE_FRAMES)
        start = before = time.perf_counter()
        since = 0
        for step in range(settings.steps + 1):
            if step > 0:
                wrong = self._advance(step)
                if wrong is not None:
                    return wrong
            record.seconds = time.perf_counter() - start
            last = step == settings.steps
            if step % settings.log_interval == 0 or last:
                now = time.perf_counter()
                speed = (step - since) / (now - before) if step else 0.0
                before, since = now, step
                sample = self._sample(step, speed)
                bar.show(sample)
                if log is not None:
                    log.write(sample.row() + "\n")
                    log.flush()
                if len(record.samples) % thin == 0 or last:
                    record.distances.add(self.atoms.get_positions())
            if frames is not None and (step % settings.trajectory_interval == 0 or last):
                frames.write(self.good)
        return None

    def _advance(self, step: int) -> str | None:
        """Take one step; returns what is wrong with the state it led to."""
        self.step = step
        try:
            self.integrator.step()
            wrong = self._wrong(step)
            if wrong is None:
                self.good = snapshot(self.atoms)
            return wrong
        except Exception as error:  # a potential that fails far from its data, mostly
            self.cause = error
            return f"{type(error).__name__}: {error}"

    def _advice(self, stopped: str, folder: Path | None) -> str:
        where = "the record of this error" if folder is None else str(folder / output.LAST_GOOD)
        return (
            f"molecular dynamics stopped at step {self.step} "
            f"({self.step * self.settings.timestep:g} fs): {stopped}. "
            f"The last good state, of step {self.step - 1}, is in {where}. Try a shorter "
            "time step, a relaxed structure, or a potential trained on such states."
        )
