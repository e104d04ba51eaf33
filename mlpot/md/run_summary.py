"""Numbers that sum up a staged run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mlx.core as mx
import numpy as np

from .config import MDConfig, Stage
from .engine import Engine

if TYPE_CHECKING:
    from .restart import Progress
    from .watch import Watch


class Totals:
    """Collects what the summary of a run tells.

    Args:
        config: of the run.
        n_atoms: of one replica.
    """

    def __init__(self, config: MDConfig, n_atoms: int) -> None:
        self._config, self._n_atoms = config, n_atoms
        self.seconds, self.steps = 0.0, 0
        self._dynamics = [0.0, 0.0]  # fs and seconds of all stages but relaxations
        self._restart: int | None = None
        self._relaxations: list[dict[str, Any]] = []
        self._samples: list[tuple[float, str, int, float, float]] = []
        self._work = {"lists_built": 0, "blocks_repeated": 0, "exact_steps": 0, "traces": 0}

    def add_time(self, steps: int, seconds: float, dt: float) -> None:
        """Steps taken, how long they took, and the time step in fs, 0 in relaxations."""
        self.steps, self.seconds = self.steps + steps, self.seconds + seconds
        if dt > 0:
            self._dynamics = [self._dynamics[0] + steps * dt, self._dynamics[1] + seconds]

    def add_sample(self, moment: float, number: int, values: dict[str, np.ndarray]) -> None:
        """A logged step of the stage of this number."""
        temperature, conserved = float(values["temperature"].mean()), float(values["conserved"][0])
        ensemble = self._config.stages[number].ensemble
        self._samples.append((moment, ensemble, number, temperature, conserved))

    def recall(self, log: dict[str, np.ndarray], progress: Progress) -> None:
        """Take what an earlier part of the run has logged of the stage that goes on."""
        self._restart = progress.step
        begin = progress.step - progress.stage_step
        for step in np.unique(log["step"]):
            if (begin < step or step == begin == 0) and step <= progress.step:
                own = log["step"] == step
                values = {
                    "temperature": log["temperature_K"][own],
                    "conserved": log["conserved_eV"][own],
                }
                self.add_sample(float(log["time_fs"][own][0]), progress.stage, values)

    def add_relaxation(self, stage: Stage, forces: np.ndarray) -> str | None:
        """The end of a relaxation with the largest force of each replica, eV/Angstrom.

        Returns:
            What to tell where it has not converged.
        """
        largest = float(forces.max())
        self._relaxations.append(
            {
                "stage": stage.label,
                "largest_force_eV_per_A": largest,
                "fmax_eV_per_A": stage.fmax,
                "converged": largest <= stage.fmax,
            }
        )
        if largest <= stage.fmax:
            return None
        return (
            f"{stage.label} has not converged in {stage.steps} steps: the largest force is "
            f"{largest:.4g} eV/Å, fmax {stage.fmax:g} eV/Å"
        )

    def add_engine(self, engine: Engine) -> None:
        """What an engine has done by the end of its stage."""
        self._work["lists_built"] = engine.search.n_builds
        self._work["blocks_repeated"] += engine.n_repeated
        self._work["exact_steps"] += engine.n_exact
        self._work["traces"] += engine.n_traces

    def drift(self) -> float | None:
        """Slope of the conserved quantity in the last stage, meV/atom/ps; None for few samples."""
        if not self._samples or self._samples[-1][1] == "minimise":
            return None
        last = [one for one in self._samples if one[2] == self._samples[-1][2]]
        if len(last) < 3:
            return None
        time, conserved = np.array([one[0] for one in last]), np.array([one[4] for one in last])
        slope = np.polyfit(time - time[0], conserved - conserved[0], 1)[0]
        return float(slope * 1e6 / self._n_atoms)

    def summary(self, step: int, problem: str | None, watch: Watch) -> dict[str, Any]:
        """Settings and main numbers, as JSON takes them."""
        last = [one for one in self._samples if one[2] == self._samples[-1][2]]
        temperatures = np.array([one[3] for one in last])
        # A relaxation has no temperature, and takes no time.
        warm = len(last) > 0 and bool(np.isfinite(temperatures).all())
        speed = self.steps / self.seconds if self.seconds > 0 else 0.0
        simulated, seconds = self._dynamics
        peak, limit = mx.get_peak_memory(), self._config.memory_limit
        return {
            "settings": self._config.model_dump(),
            "n_atoms": self._n_atoms,
            "steps_done": step,
            "stopped": problem,
            "mean_temperature_K": float(temperatures.mean()) if warm else None,
            "std_temperature_K": float(temperatures.std()) if warm else None,
            "drift_meV_per_atom_per_ps": self.drift(),
            # Speed, lists and memory are those of this part of the run.
            "restarted_from_step": self._restart,
            "steps_since_restart": self.steps,
            "seconds": self.seconds,
            "steps_per_second": speed,
            "ns_per_day": simulated / seconds * 1e-6 * 86400 if seconds > 0 else None,
            "relaxations": self._relaxations,
            "closest_pair_A": watch.closest if np.isfinite(watch.closest) else None,
            "closer_than_training_data": watch.warned,
            "peak_memory_MB": peak / 1e6,
            "memory_limit_passed": limit is not None and peak > limit * 1e9,
            **self._work,
        }
