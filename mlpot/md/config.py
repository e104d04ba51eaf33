"""The configuration of ``mlpot md``: every key with type, unit and default."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator, model_validator

from mlpot.config import StrictModel

from .committee_config import CommitteeSection
from .file_names import check_trajectory
from .restart import Progress
from .state import Integrator
from .system import System

Ensemble = Literal[
    "nve", "langevin", "nose-hoover", "bussi", "npt", "npt-full", "npt-stochastic", "minimise"
]
#: Ensembles of which a bath holds the temperature.
THERMOSTATTED = ("langevin", "nose-hoover", "bussi", "npt", "npt-full", "npt-stochastic")
#: Ensembles that use the time constant tau; those at constant pressure.
WITH_TAU = ("nose-hoover", "bussi", "npt", "npt-full", "npt-stochastic")
BAROSTATTED = ("npt", "npt-full", "npt-stochastic")
#: fs; even caesium's fastest vibration takes twenty times as long.
LONGEST_TIMESTEP = 50.0
#: GPa; three times the pressure at the centre of the Earth.
HIGHEST_PRESSURE = 1000.0


def _possible_timestep(value: float | None) -> float | None:
    if value is not None and value > LONGEST_TIMESTEP:
        raise ValueError(
            f"a time step may have {LONGEST_TIMESTEP:g} fs at most: give 0.5 fs where there is "
            "hydrogen, 1 to 2 elsewhere, 5 for heavy metals"
        )
    return value


class Stage(StrictModel):
    """One part of a run, e.g. heating or production."""

    name: str = Field(default="", description="for the log; the ensemble by default")
    ensemble: Ensemble = Field(
        default="nve",
        description="nve; langevin, nose-hoover, bussi (constant volume and temperature); npt "
        "(Martyna-Tobias-Klein, volume), npt-full (all of the cell), npt-stochastic (stochastic "
        "cell rescaling); minimise (FIRE)",
    )
    steps: int = Field(default=1000, ge=1, description="number of steps; of minimise at most")
    timestep: float | None = Field(default=None, gt=0, description="fs; the run's by default")
    temperature: float | tuple[float, float] | None = Field(
        default=None,
        description="K, of the bath; two values: from the first to the second; the run's by "
        "default",
    )
    friction: float = Field(default=10.0, gt=0, description="of langevin, 1/ps")
    tau: float = Field(default=0.1, gt=0, description="time constant of thermostats, ps")
    pressure: float = Field(default=0.0, description="of npt ensembles, GPa")
    tau_pressure: float = Field(default=1.0, gt=0, description="time constant of the cell, ps")
    compressibility: float = Field(default=0.01, gt=0, description="of npt-stochastic, 1/GPa")
    fmax: float = Field(default=0.01, gt=0, description="minimise ends here, eV/Angstrom")

    @field_validator("temperature")
    @classmethod
    def _warm(cls, value):
        ends = value if isinstance(value, tuple) else (value,)
        if any(end is not None and end <= 0 for end in ends):
            raise ValueError("a bath needs a temperature above 0 K")
        return value

    _timestep = field_validator("timestep")(_possible_timestep)

    @field_validator("pressure")
    @classmethod
    def _possible(cls, value):
        if abs(value) > HIGHEST_PRESSURE:
            raise ValueError(
                f"a pressure may have {HIGHEST_PRESSURE:g} GPa at most, up or down; "
                "1 GPa is 10 kbar, 1 bar 0.0001 GPa"
            )
        return value

    def check_times(self, timestep: float) -> None:
        """Refuse baths that are too quick for the time step.

        Args:
            timestep: fs, of the run.

        Raises:
            ValueError: a friction or time constant that cannot be integrated.
        """
        dt = self.timestep or timestep
        if self.ensemble == "langevin" and self.friction * 1e-3 * dt >= 1:
            raise ValueError(
                f"stage {self.label!r}: friction {self.friction:g} /ps must be less than one "
                f"inverse time step, {1e3 / dt:g} /ps; 1 to 10 are usual"
            )
        constants = ["tau"] * (self.ensemble in WITH_TAU)
        constants += ["tau_pressure"] * (self.ensemble in BAROSTATTED)
        for name in constants:
            value, usual = getattr(self, name), Stage.model_fields[name].default
            if value * 1e3 <= dt:
                raise ValueError(
                    f"stage {self.label!r}: {name} {value:g} ps is not longer than the time step, "
                    f"{dt:g} fs: give {usual:g} ps, or ten time steps at least"
                )

    @property
    def label(self) -> str:
        """Name for the log."""
        return self.name or self.ensemble

    def integrator(self, system: System, timestep: float) -> Integrator:
        """The integrator of this stage, for the run's time step."""
        from . import bussi, cell_rescaling, langevin, nose_hoover, npt, nve
        from .fire import fire

        dt = self.timestep or timestep
        if self.ensemble == "nve":
            return nve(system, dt)
        if self.ensemble == "minimise":
            return fire(system, fmax=self.fmax)
        if self.ensemble == "langevin":
            return langevin(system, dt, self.friction)
        if self.ensemble == "nose-hoover":
            return nose_hoover(system, dt, self.tau)
        if self.ensemble == "bussi":
            return bussi(system, dt, self.tau)
        if self.ensemble == "npt-stochastic":
            return cell_rescaling(
                system,
                dt,
                self.pressure,
                tau=self.tau,
                tau_pressure=self.tau_pressure,
                compressibility=self.compressibility,
            )
        return npt(
            system,
            dt,
            self.pressure,
            tau=self.tau,
            tau_pressure=self.tau_pressure,
            full_cell=self.ensemble == "npt-full",
        )


class MDConfig(StrictModel):
    """A run of molecular dynamics."""

    model: str = Field(description="potential, a .safetensors file")
    struct: str = Field(description="structure, in any format that ASE reads")
    index: int = Field(default=-1, description="which structure of the file; -1 is the last")
    out: str = Field(
        min_length=1, description="folder for log, trajectory, restart file and pictures"
    )
    stages: list[Stage] = Field(default=[Stage()], min_length=1, description="one after another")
    temperature: float = Field(
        default=300.0, ge=0, description="K: of the first velocities, and of baths without own"
    )
    timestep: float = Field(default=0.5, gt=0, description="fs")
    seed: int = Field(default=0, ge=0, le=2**63 - 1, description="of velocities and noise")
    replicas: int = Field(default=1, ge=1, description="copies that run in one batch")
    replica_temperatures: list[float] | None = Field(
        default=None,
        description="K, one for each replica, in place of `temperature` everywhere",
    )
    keep_velocities: bool = Field(
        default=False, description="start with those of the structure file"
    )
    fixed: list[int] = Field(default=[], description="indices of atoms that never move, from 0")
    remove_com: bool = Field(
        default=True, description="hold the centre of mass, unless atoms are fixed"
    )
    dtype: Literal["float32", "float64"] = Field(
        default="float32", description="float64 runs on the CPU"
    )
    feature_dtype: Literal["float32", "float16", "bfloat16"] = Field(
        default="float32",
        description="of features in the convolutions; 16 bits are for large systems on GPUs",
    )
    skin: float = Field(default=0.5, ge=0, le=5, description="of the list of pairs, Angstrom")
    neighbors: Literal["auto", "host", "device"] = Field(
        default="auto", description="where pairs are searched; auto: on a GPU, if there is one"
    )
    block: int = Field(default=20, ge=1, description="steps without waiting for the device")
    log_interval: int = Field(default=10, ge=1, description="steps between rows of the log")
    trajectory: str = Field(
        default="trajectory.h5",
        description="file in `out`: .h5 (H5MD), .extxyz or .traj (ASE, without replicas); empty "
        "for none",
    )
    trajectory_interval: int | None = Field(
        default=None, ge=1, description="steps between frames; as log_interval by default"
    )
    restart_interval: int = Field(
        default=1000, ge=1, description="steps between restart files; frames reach the disk then"
    )
    max_temperature: float = Field(default=10_000.0, gt=0, description="stop above it, K")
    lost_distance: float = Field(
        default=6.0, gt=0, description="stop when an atom has no other within it, Angstrom"
    )
    closest_pair: float | None = Field(
        default=None,
        gt=0,
        description="warn when two atoms come closer, Angstrom; the model's training data say it "
        "by default, where known",
    )
    committee: CommitteeSection | None = Field(
        default=None, description="potentials that watch the run and say where they disagree"
    )
    memory_limit: float | None = Field(
        default=None,
        gt=0,
        le=1e6,
        description="that MLX is to keep within, GB; the summary says if it did not",
    )
    cache_limit: float | None = Field(
        default=None, ge=0, le=1e6, description="of MLX's free memory, GB"
    )

    _timestep = field_validator("timestep")(_possible_timestep)

    @model_validator(mode="after")
    def _sensible(self):
        self._check_replicas()
        if self.dtype == "float64" and self.feature_dtype != "float32":
            raise ValueError(f"feature_dtype is {self.feature_dtype!r}: that needs dtype: float32")
        for stage in self.stages:
            temperature = stage.temperature or self.temperature
            hottest = max(temperature) if isinstance(temperature, tuple) else temperature
            if stage.ensemble in THERMOSTATTED and hottest <= 0:
                raise ValueError(f"stage {stage.label!r}: its bath needs a temperature above 0 K")
            stage.check_times(self.timestep)
            if hottest >= self.max_temperature:
                raise ValueError(
                    f"temperature {hottest:g} K is not below max_temperature "
                    f"{self.max_temperature:g} K, at which the run is stopped"
                )
        if self.trajectory:
            check_trajectory(self.trajectory)
            if self.replicas > 1 and not self.trajectory.endswith(".h5"):
                raise ValueError(
                    f"trajectory {self.trajectory!r} holds one structure, the run has "
                    f"{self.replicas} replicas: give a name that ends in .h5, e.g. trajectory.h5"
                )
        return self

    def _check_replicas(self) -> None:
        each = self.replica_temperatures
        if each is None:
            return
        if len(each) != self.replicas:
            raise ValueError(
                f"replica_temperatures has {len(each)} values for {self.replicas} replicas: give "
                "one each"
            )
        if min(each) <= 0 or max(each) >= self.max_temperature:
            raise ValueError(
                f"replica_temperatures {each} must lie between 0 and max_temperature "
                f"{self.max_temperature:g} K"
            )
        own = [stage.label for stage in self.stages if stage.temperature is not None]
        if own:
            raise ValueError(f"stage {own[0]!r} has a temperature, but replica_temperatures too")

    def temperatures(self, stage: Stage, done: float) -> list[float]:
        """Temperature of each replica in a stage of which a part is done, K."""
        if self.replica_temperatures is not None:
            return self.replica_temperatures
        wanted = stage.temperature or self.temperature
        if isinstance(wanted, tuple):
            wanted = wanted[0] + done * (wanted[1] - wanted[0])
        return [wanted] * self.replicas

    @property
    def frame_interval(self) -> int:
        """Steps between frames."""
        return self.trajectory_interval or self.log_interval

    def steps_left(self, progress: Progress) -> int:
        """Steps that are still to be taken, if no minimisation ends early."""
        later = self.stages[progress.stage :]
        return sum(stage.steps for stage in later) - progress.stage_step
