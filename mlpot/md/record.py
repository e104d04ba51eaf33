"""What a run leaves: a row per logged step, and the drift of the total energy."""

from __future__ import annotations

from dataclasses import asdict, astuple, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float64

from .settings import Settings

if TYPE_CHECKING:
    from ase import Atoms

    from .rdf import PairDistances


@dataclass(frozen=True)
class Sample:
    """One logged step; energies in eV, time in fs, temperature in K."""

    step: int
    time: float
    potential: float
    kinetic: float
    total: float
    temperature: float
    steps_per_second: float

    @staticmethod
    def header() -> str:
        """Names of the columns, with units, as the first line of the log."""
        return "step,time_fs,potential_eV,kinetic_eV,total_eV,temperature_K,steps_per_second"

    def row(self) -> str:
        """The values as a line of the log, energies with all their digits."""
        values = astuple(self)
        return ",".join([*(repr(value) for value in values[:-1]), f"{values[-1]:.4g}"])


@dataclass
class Record:
    """Result of a run.

    Args:
        settings: of the run.
        n_atoms: number of atoms.
        samples: the logged steps.
        atoms: the last state.
        distances: pair distances collected on the way.
        seconds: wall-clock time of the steps.
        files: what was written, by name.
    """

    settings: Settings
    n_atoms: int
    atoms: Atoms
    distances: PairDistances
    samples: list[Sample] = field(default_factory=list)
    seconds: float = 0.0
    files: dict[str, Path] = field(default_factory=dict)

    def column(self, name: str) -> Float64[np.ndarray, "n_samples"]:
        """All logged values of one column of :class:`Sample`."""
        return np.array([getattr(sample, name) for sample in self.samples], dtype=np.float64)

    @property
    def drift(self) -> float | None:
        """Slope of a straight line through the total energy, in meV/atom/ps.

        None for a run with a bath, which exchanges energy, and for fewer than three samples.
        """
        if self.settings.ensemble != "nve" or len(self.samples) < 3:
            return None
        total = self.column("total")
        slope = np.polynomial.Polynomial.fit(self.column("time"), total - total[0], 1).convert()
        per_fs = slope.coef[1] if len(slope.coef) > 1 else 0.0
        return float(per_fs * 1e6 / self.n_atoms)

    @property
    def fluctuation(self) -> float:
        """Standard deviation of the total energy in meV/atom."""
        return float(self.column("total").std() * 1e3 / self.n_atoms)

    @property
    def steps_done(self) -> int:
        """Steps up to the last logged one."""
        return self.samples[-1].step if self.samples else 0

    @property
    def steps_per_second(self) -> float:
        """Mean speed."""
        return self.steps_done / self.seconds if self.seconds > 0 else float("nan")

    @property
    def ns_per_day(self) -> float:
        """Mean speed as simulated nanoseconds in a day."""
        return self.steps_per_second * self.settings.timestep * 1e-6 * 86400

    def summary(self) -> dict[str, Any]:
        """Settings and main numbers, as JSON takes them."""
        temperatures = self.column("temperature")
        return {
            "settings": asdict(self.settings),
            "n_atoms": self.n_atoms,
            "steps_done": self.steps_done,
            "mean_temperature_K": float(temperatures.mean()),
            "std_temperature_K": float(temperatures.std()),
            "drift_meV_per_atom_per_ps": self.drift,
            "total_energy_std_meV_per_atom": self.fluctuation,
            "steps_per_second": self.steps_per_second,
            "ns_per_day": self.ns_per_day,
        }
