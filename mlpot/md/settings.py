"""What a run of molecular dynamics is told, checked before anything is computed."""

from __future__ import annotations

import difflib
import math
from dataclasses import dataclass

ENSEMBLES = ("nve", "langevin")


@dataclass(frozen=True)
class Settings:
    """Checked settings of a run.

    Args:
        ensemble: "nve" (velocity Verlet) or "langevin" (constant volume and temperature).
        temperature: of the first velocities and of the Langevin bath, in K.
        timestep: in fs.
        steps: number of steps.
        friction: of the Langevin bath, in 1/ps.
        seed: of velocities and random forces.
        log_interval: steps between two rows of the log.
        trajectory_interval: steps between two frames of the trajectory.
        max_temperature: the run is stopped above it, in K.
        lost_distance: the run is stopped when an atom that began closer to another atom has
            none within it, in Angstrom.

    Raises:
        ValueError: a value that makes no sense.
    """

    ensemble: str = "nve"
    temperature: float = 300.0
    timestep: float = 0.5
    steps: int = 1000
    friction: float = 10.0
    seed: int = 0
    log_interval: int = 10
    trajectory_interval: int = 10
    max_temperature: float = 10_000.0
    lost_distance: float = 6.0

    def __post_init__(self) -> None:
        if self.ensemble not in ENSEMBLES:
            near = difflib.get_close_matches(str(self.ensemble).lower(), ENSEMBLES, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ValueError(
                f"unknown ensemble {self.ensemble!r}: known are {', '.join(ENSEMBLES)}{hint}"
            )
        for name, unit in (
            ("timestep", "fs"),
            ("max_temperature", "K"),
            ("lost_distance", "Angstrom"),
        ):
            self._need(name, getattr(self, name) > 0, f"a positive number of {unit}")
        self._need("temperature", self.temperature >= 0, "0 or a positive number of K")
        self._need(
            "temperature",
            self.temperature < self.max_temperature,
            f"below max_temperature {self.max_temperature} K, at which the run is stopped",
        )
        if self.ensemble == "langevin":
            self._need("friction", self.friction > 0, "a positive number in 1/ps")
            self._need(
                "friction",
                self.friction * 1e-3 * self.timestep < 1,
                "less than one inverse time step, or the bath cannot be integrated",
            )
        for name in ("steps", "log_interval", "trajectory_interval"):
            self._need_whole(name, 1)
        self._need_whole("seed", 0)

    def _need(self, name: str, good: bool, wanted: str) -> None:
        value = getattr(self, name)
        if not good or not math.isfinite(value):
            raise ValueError(f"{name} is {value!r}: it must be {wanted}")

    def _need_whole(self, name: str, least: int) -> None:
        value = getattr(self, name)
        if value != int(value) or value < least:
            raise ValueError(f"{name} is {value!r}: it must be a whole number from {least} on")
