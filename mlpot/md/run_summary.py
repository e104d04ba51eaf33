"""Numbers that sum up a staged run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mlx.core as mx
import numpy as np

from .config import MDConfig, Stage
from .engine import Engine

if TYPE_CHECKING:
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
        self._samples: list[tuple[float, str, int, float, float]] = []
        self._work = {"lists_built": 0, "blocks_repeated": 0, "exact_steps": 0, "traces": 0}

    def add_time(self, steps: int, seconds: float) -> None:
        """Steps taken, and how long they took."""
        self.steps, self.seconds = self.steps + steps, self.seconds + seconds

    def add_sample(self, moment: float, stage: Stage, values: dict[str, np.ndarray]) -> None:
        """A logged step."""
        temperature = float(values["temperature"].mean())
        number = self._config.stages.index(stage)
        self._samples.append(
            (moment, stage.ensemble, number, temperature, float(values["conserved"][0]))
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
        temperatures = np.array([one[3] for one in last]) if last else np.zeros(1)
        speed = self.steps / self.seconds if self.seconds > 0 else 0.0
        stage = self._config.stages[-1]
        return {
            "settings": self._config.model_dump(),
            "n_atoms": self._n_atoms,
            "steps_done": step,
            "stopped": problem,
            "mean_temperature_K": float(temperatures.mean()),
            "std_temperature_K": float(temperatures.std()),
            "drift_meV_per_atom_per_ps": self.drift(),
            "seconds": self.seconds,
            "steps_per_second": speed,
            "ns_per_day": speed * (stage.timestep or self._config.timestep) * 1e-6 * 86400,
            "closest_pair_A": watch.closest if np.isfinite(watch.closest) else None,
            "closer_than_training_data": watch.warned,
            "peak_memory_MB": mx.get_peak_memory() / 1e6,
            **self._work,
        }
