"""The nested sections of a training configuration."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pydantic
from pydantic import BeforeValidator, Field

from mlpot.config import StrictModel
from mlpot.elements import atomic_number, symbol


def key(default: Any, description: str, unit: str | None = None, **limits: Any) -> Any:
    """A documented key: its default, what it means, its unit and its limits."""
    extra: Any = {"unit": unit} if unit else None
    field: Any = Field
    return field(default, description=description, json_schema_extra=extra, **limits)


def _by_number(value: Any) -> Any:
    """Keys of a mapping of E0s, symbols or atomic numbers, as atomic numbers."""
    if not isinstance(value, dict):
        return value
    numbers = {}
    for name in value:
        number = int(name) if str(name).isdigit() else atomic_number(str(name))
        symbol(number)
        numbers[number] = value[name]
    return numbers


ReferenceEnergies = Annotated[
    Literal["auto", "isolated", "least_squares"] | dict[int, float], BeforeValidator(_by_number)
]


def _switch(value: Any) -> Any:
    """YAML takes the words on and off for booleans."""
    return ("on" if value else "off") if isinstance(value, bool) else value


Recording = Annotated[Literal["auto", "on", "off"], BeforeValidator(_switch)]


class OptimizerSection(StrictModel):
    """How parameters are moved; the learning rate is the key ``lr``."""

    name: Literal["adam", "adamw", "muon", "lion", "schedule_free"] = key(
        "adam",
        "adam; adamw: Adam with decoupled weight decay; muon: orthogonalised updates of the "
        "matrices in linear maps, adamw for the rest; lion: the sign of an average, wants a lr "
        "3 to 10 times smaller; schedule_free: AdamW with an average of its own, which takes the "
        "place of ema_decay, at a constant rate after the warm-up.",
    )
    beta1: float = key(0.9, "Decay per step of the average gradient.", ge=0, lt=1)
    beta2: float | None = key(
        None,
        "Decay per step of the average squared gradient; 0.999, with lion 0.99, by default.",
        ge=0,
        lt=1,
    )
    eps: float = key(1e-8, "Added to the root of the average squared gradient.", gt=0)
    weight_decay: float = key(
        0.01, "Part of each parameter taken off per step and learning rate; not with adam.", ge=0
    )
    momentum: float = key(
        0.95, "muon: decay per step of the average gradient of matrices.", ge=0, lt=1
    )
    adamw_lr: float | None = key(
        None,
        "muon: learning rate of AdamW for what is not a matrix, the largest one where it is "
        "scheduled, with the schedule of lr; lr by default.",
        gt=0,
    )

    @pydantic.model_validator(mode="after")
    def _rate_of_muon(self) -> OptimizerSection:
        if self.adamw_lr is not None and self.name != "muon":
            raise ValueError(
                f"adamw_lr goes with the optimizer muon, not with {self.name}: leave it out, lr is "
                "the rate of all parameters"
            )
        return self


class SchedulerSection(StrictModel):
    """How the learning rate changes."""

    name: Literal["cosine", "plateau", "constant"] = key(
        "cosine",
        "cosine: from lr down to final_fraction of it over all epochs; plateau: times factor after "
        "patience epochs without a better validation loss; constant.",
    )
    warmup_epochs: float = key(
        1.0, "Epochs over which the rate rises from zero, before what name says.", ge=0
    )
    final_fraction: float = key(0.01, "Smallest rate as a part of lr.", ge=0, le=1)
    factor: float = key(0.5, "plateau: what the rate is multiplied with.", gt=0, lt=1)
    patience: int = key(10, "plateau: epochs without improvement.", unit="epochs", ge=1)


class StageSection(StrictModel):
    """From an epoch on, other weights of the terms of the loss; null keeps what was before."""

    from_epoch: int = key(..., "First epoch of the stage, counted from 1.", unit="epochs", ge=2)
    energy_weight: float | None = key(
        None, "Weight of the error of the energy per atom.", unit="1/(eV/atom)^2", ge=0
    )
    forces_weight: float | None = key(
        None, "Weight of the errors of force components.", unit="1/(eV/Angstrom)^2", ge=0
    )
    stress_weight: float | None = key(
        None, "Weight of the errors of stress components.", unit="1/(eV/Angstrom^3)^2", ge=0
    )
    hvps_weight: float | None = key(
        None, "Weight of the errors of Hessian-vector products.", unit="1/(eV/Angstrom^2)^2", ge=0
    )
    lr: float | None = key(
        None, "Learning rate, constant from here on; null goes on with the scheduler.", gt=0
    )


class RehearsalSection(StrictModel):
    """Old data beside the new, so that a model does not forget what it knew."""

    file: str | Annotated[list[str], Field(min_length=1)] = key(
        ..., "Data that the model knew: a file, a pattern, or a list of them."
    )
    ratio: float = key(
        1.0, "Old frames in each epoch as a part of the new ones, chosen anew each time.", gt=0
    )
    weight: float = key(1.0, "Factor of the weights of old frames.", ge=0)


class AdaptersSection(StrictModel):
    """Low-rank changes of the linear maps, which are trained while the model stays fixed."""

    rank: int = key(4, "Rank of the change of each matrix.", ge=1)
    weights: Annotated[list[str], Field(min_length=1)] = key(
        ["*"], "Patterns of names of the linear maps that get one."
    )


class LossSection(StrictModel):
    """How errors are counted: the weighted mean over labels of a function of the error."""

    name: Literal["mse", "huber"] = key(
        "mse", "mse: e^2; huber: e^2 up to delta, delta (2 |e| - delta) beyond."
    )
    delta: float = key(
        0.01,
        "huber: where it becomes linear.",
        unit="eV/atom, eV/Angstrom, eV/Angstrom^3, eV/Angstrom^2",
        gt=0,
    )


class LoggingSection(StrictModel):
    """Other programs that watch a run; nothing leaves this machine unless wandb is named."""

    tensorboard: bool = key(
        False, "Write TensorBoard's files to the folder tensorboard of the run; extra tensorboard."
    )
    wandb: str | None = key(
        None, "Project of Weights & Biases that gets the numbers of each epoch; extra wandb."
    )
    wandb_mode: Literal["online", "offline"] = key(
        "online", "offline keeps the files in the folder wandb of the run, for wandb sync."
    )


class KeysSection(StrictModel):
    """Names of the labels; null takes REF_energy, REF_forces, ... and then energy, forces, ..."""

    energy_key: str | None = key(None, "Total energy.")
    forces_key: str | None = key(None, "Forces.")
    stress_key: str | None = key(None, "Stress: 3x3, 9 or Voigt 6 numbers.")
    virials_key: str | None = key(None, "Virials, -volume times stress.")
    hvp_vectors_key: str | None = key(
        None, "Directions of Hessian-vector products, 3 k numbers an atom."
    )
    hvps_key: str | None = key(None, "Hessian-vector products, 3 k numbers an atom.")
    config_type_key: str = key("config_type", "Kind of frame, for tables of errors.")


class UnitsSection(StrictModel):
    """Units of the data files; null follows from the others, eV and Angstrom at last."""

    energy_unit: str | None = key(None, "eV, meV, Hartree, Rydberg, kcal/mol, kJ/mol, J.")
    length_unit: str | None = key(None, "Angstrom, Bohr, nm; of positions and cells.")
    forces_unit: str | None = key(None, "energy/length, such as Hartree/Bohr.")
    stress_unit: str | None = key(None, "eV/Angstrom^3, GPa, kbar, bar, Pa, Hartree/Bohr^3.")
