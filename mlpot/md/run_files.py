"""The folder of a staged run: log, trajectory, restart file, written beside the computation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from mlpot.files import atomic_write, temporary_beside

from . import run_plots
from .ase_bridge import AseFrames, read_frames, save, to_atoms
from .config import MDConfig
from .file_names import (
    CONFIG,
    DISAGREEMENT,
    FINAL,
    LAST_GOOD,
    LOG,
    PICTURES,
    RESTART,
    START,
    SUMMARY,
    UNCERTAIN,
    check_trajectory,
)
from .frame import Frame
from .h5md import H5MDFile, read_h5md
from .journal import journal_of
from .log_file import LogFile, read_log
from .observables import COLUMNS
from .restart import Progress, save_restart
from .state import State
from .system import System
from .write_errors import naming


def results(config: MDConfig) -> list[str]:
    """Names of all files that a run writes."""
    names = [LOG, SUMMARY, CONFIG, RESTART, START, FINAL, LAST_GOOD, *PICTURES]
    if config.committee is not None:
        names += [UNCERTAIN, DISAGREEMENT]
    return [*names, config.trajectory] if config.trajectory else names


def earlier_results(folder: Path) -> list[str]:
    """Names of files that depend on the configuration, for the one that lies in the folder."""
    try:
        found = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        name = str(found["trajectory"])
        if name:
            check_trajectory(name)
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [*([name, journal_of(name).name] if name else []), UNCERTAIN, DISAGREEMENT]


def is_complete(folder: Path) -> bool:
    """Whether a run has written all its files, the summary of its end as the last of them."""
    try:
        found = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
        return found["stopped"] is None and (folder / FINAL).is_file()
    except (OSError, ValueError, KeyError, TypeError):
        return False


class RunFiles:
    """Writes log and trajectory in a thread of its own, one block behind the computation.

    Args:
        folder: exists.
        config: of the run.
        frame: what the structures are like.
        progress: of an earlier part that is continued; None for a new run.
    """

    def __init__(
        self, folder: Path, config: MDConfig, frame: Frame, progress: Progress | None
    ) -> None:
        self.folder, self.config = folder, config
        self.frames = 0 if progress is None else progress.frames
        with naming(folder / LOG):
            self._log = LogFile(folder / LOG, None if progress is None else progress.log_bytes)
        self._trajectory: H5MDFile | AseFrames | None = None
        self._bytes = 0
        if config.trajectory:
            path = folder / config.trajectory
            kept = None if progress is None else progress.frames
            with naming(path):
                if path.suffix == ".h5":
                    self._trajectory = H5MDFile(path, frame, kept, config.dtype)
                else:
                    cut = 0 if progress is None else progress.trajectory_bytes
                    self._trajectory = AseFrames(path, kept, cut)
        self._pool = ThreadPoolExecutor(1, "mlpot-files")
        self._pending: Future | None = None

    @contextmanager
    def _writing(self, path: Path) -> Iterator[None]:
        """Gives up at the first file that cannot be written: nothing is to be held for later."""
        try:
            with naming(path):
                yield
        except OSError:
            trajectory, self._trajectory = self._trajectory, None
            with suppress(OSError):
                if trajectory is not None:
                    trajectory.abandon()
            self._log.close()
            self._pool.shutdown(wait=False)
            raise

    def submit(self, work: list[tuple[str, tuple]]) -> None:
        """Write ``("log", ...)`` and ``("frame", ...)`` entries; waits for the earlier ones.

        Raises:
            OSError: what went wrong with the earlier ones, e.g. a full disk.
        """
        self.wait()
        self._pending = self._pool.submit(self._write, work)

    def wait(self) -> None:
        """Until everything submitted is written."""
        if self._pending is not None:
            pending, self._pending = self._pending, None
            pending.result()

    def _write(self, work: list[tuple[str, tuple]]) -> None:
        for kind, values in work:
            if kind == "log":
                with self._writing(self.folder / LOG):
                    self._log.write(*values)
            elif self._trajectory is not None:
                with self._writing(self._trajectory.path):
                    self._trajectory.write(Frame.of(*values))
                self.frames += 1

    def checkpoint(self, state: State, progress: Progress) -> None:
        """Bring log, trajectory and restart file to the disk, in this order."""
        self.wait()
        size = 0
        if self._trajectory is not None:
            with self._writing(self._trajectory.path):
                self._trajectory.flush()
                size = self._trajectory.path.stat().st_size
        with self._writing(self.folder / LOG):
            self._log.flush()
        progress = replace(
            progress, frames=self.frames, trajectory_bytes=size, log_bytes=self._log.length()
        )
        with self._writing(self.folder / RESTART):
            save_restart(self.folder / RESTART, state, progress)

    def close(self) -> None:
        """Finish all files."""
        try:
            self.wait()
        finally:
            self._pool.shutdown()
            self._log.close()
            if self._trajectory is not None:
                with self._writing(self._trajectory.path):
                    self._trajectory.close()

    def last_state(self, frame: Frame, reached_end: bool) -> None:
        """Write a frame as final, or as last good state; replicas one after the other."""
        replicas = [to_atoms(frame.part(graph)) for graph in range(len(frame.pbc))]
        if len(replicas) > 1:
            for number, atoms in enumerate(replicas):
                atoms.info["replica"] = number
        path = self.folder / (FINAL if reached_end else LAST_GOOD)
        with self._writing(path):
            save(path, replicas)
        if reached_end:
            # Of an earlier part that was stopped.
            (self.folder / LAST_GOOD).unlink(missing_ok=True)

    def report(self, system: System, summary: dict[str, Any], last_stage_start: int) -> None:
        """Pictures and summary, after `close`; RDF and MSD are those of the last stage."""
        log = read_log(self.folder / LOG)
        n_atoms = int(system.counts[0])
        pictures: dict[str, Any] = {
            "energies.png": lambda: run_plots.energies(log, n_atoms),
            "temperature.png": lambda: run_plots.temperature(log),
        }
        if np.any(np.nan_to_num(log["pressure_GPa"]) != 0):  # NaN where there is none
            pictures["cell.png"] = lambda: run_plots.cell(log)
        frames = self._frames(last_stage_start)
        if frames is not None:
            part = slice(0, n_atoms)
            pictures["rdf.png"] = lambda: run_plots.rdf(frames, system.pbc[0])
            if len(frames["step"]) > 2:
                masses = None if system.fixed.any() else system.host_masses[part]
                pictures["msd.png"] = lambda: run_plots.msd(frames, masses)
        for name, draw in pictures.items():
            with self._writing(self.folder / name), temporary_beside(self.folder / name) as path:
                draw().savefig(path, dpi=150)
        with self._writing(self.folder / SUMMARY), atomic_write(self.folder / SUMMARY, "w") as file:
            json.dump(summary, file, indent=2)
            file.write("\n")

    def _frames(self, first_step: int) -> dict[str, np.ndarray] | None:
        """The trajectory from a step on, None where there is none."""
        if not self.config.trajectory or self.frames == 0:
            return None
        path = self.folder / self.config.trajectory
        found = read_h5md(path) if path.suffix == ".h5" else read_frames(path)
        chosen = found["step"] >= first_step
        if not chosen.any():
            chosen[-1] = True
        return {k: v if k == "species" else v[chosen] for k, v in found.items()}


def to_host(found: dict[str, mx.array], reference: np.ndarray) -> dict[str, np.ndarray]:
    """Observables as float64 numpy, energies with E0."""
    values = {name: np.array(found[name]).astype(np.float64) for name in COLUMNS}
    for name in ("potential", "total", "conserved"):
        values[name] = values[name] + reference
    return values
