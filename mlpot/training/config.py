"""What a training run is told: the keys of its configuration file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import pydantic
from pydantic import Field

from mlpot.config import StrictModel, load_yaml
from mlpot.elements import symbol
from mlpot.models import NamedBackbone, V2106Config

from .config_sections import (
    AdaptersSection,
    KeysSection,
    LoggingSection,
    LossSection,
    OptimizerSection,
    Recording,
    ReferenceEnergies,
    RehearsalSection,
    SchedulerSection,
    StageSection,
    UnitsSection,
    key,
)

Files = str | Annotated[list[str], Field(min_length=1)]


_STRESS_WEIGHT = 100.0
_HVPS_WEIGHT = 0.1


class TrainConfig(StrictModel):
    """All keys of a training configuration; only ``train_file`` and ``r_max`` have to be given.

    Names of data files are relative to the folder of the configuration file, ``out`` to the
    current folder.
    """

    train_file: Files = key(
        ...,
        "Training data: a file, a pattern such as data/*.xyz, or a list of them. Extended XYZ, "
        "HDF5 of mlpot, rMD17 npz and whatever ASE reads, also compressed. Frames of one isolated "
        "atom give E0 and are not trained on.",
    )
    valid_file: Files | None = key(
        None, "Validation data; taken from the training data where not given."
    )
    valid_fraction: float = key(
        0.1,
        "Part of the training frames that is kept for validation where there is no valid_file.",
        gt=0,
        lt=1,
    )
    n_train: int | None = key(
        None,
        "Frames to train on, drawn by seed from those there are; all of them by default. For small "
        "trials and learning curves.",
        ge=1,
    )
    test_file: Files | None = key(
        None, "Test data: evaluated once, at the end; each file is a set of its own."
    )
    in_memory: bool | None = key(
        None,
        "Whether all frames are read at the start; false leaves them in their HDF5 files, to be "
        "read batch by batch. By default more than 100000 frames in HDF5 stay there.",
    )
    out: str | None = key(
        None, "Folder of the run, made anew; runs/NAME for the configuration NAME.yaml by default."
    )

    r_max: float = key(..., "Cutoff radius of the interaction.", unit="Angstrom", gt=0)
    model: NamedBackbone = key(
        V2106Config(), "The network, by its name: v2106, gate_points, nequip."
    )
    start_from: str | None = key(
        None,
        "Model to go on from: a file, or the name of a published potential that was fetched. Its "
        "network, cutoff and repulsion are kept (leave model and zbl out, r_max is its cutoff), "
        "its E0s are fitted anew unless E0s are given. Elements that it does not know are added.",
    )
    freeze: list[str] = key(
        [],
        "Parameters that are not trained, by patterns of their names such as embedding.* or "
        "*.radial.*; mlpot info MODEL --parameters lists them.",
    )
    adapters: AdaptersSection | None = key(
        None, "Train low-rank changes of linear maps and nothing else; null trains all parameters."
    )
    rehearsal: RehearsalSection | None = key(
        None, "Old data to go on training with beside the new, with start_from."
    )
    zbl: bool = key(True, "Screened nuclear repulsion where atoms come closer than bonds are.")
    E0s: ReferenceEnergies = key(
        "auto",
        "Energies of isolated atoms: isolated (from frames of one atom), least_squares, a mapping "
        "such as {H: -13.6, O: -432.1}, or auto: isolated where there are such frames, else "
        "least squares.",
        unit="eV",
    )

    batch_size: int = key(8, "Frames in a training step.", ge=1)
    accumulation_steps: int = key(
        1,
        "Batches whose gradients make one step, for batches that do not fit into memory; the same "
        "as batches so many times as large.",
        ge=1,
    )
    valid_batch_size: int | None = key(
        None, "Frames evaluated at once; batch_size where not given.", ge=1
    )
    max_num_epochs: int = key(200, "Passes over the training data.", ge=1)
    patience: int | None = key(
        None,
        "Epochs without a better validation loss after which training stops; never by default.",
        ge=1,
    )
    lr: float = key(0.01, "Learning rate, the largest one where it is scheduled.", gt=0)
    optimizer: OptimizerSection = key(OptimizerSection(), "How parameters are moved.")
    scheduler: SchedulerSection = key(SchedulerSection(), "How the learning rate changes.")
    clip_grad: float | None = key(
        10.0, "Largest norm of the gradient of a step; null for no limit.", gt=0
    )
    ema_decay: float | None = key(
        0.99,
        "Decay per step of the running average of the parameters, which is what is validated and "
        "saved as the best model; null for no average.",
        gt=0,
        lt=1,
    )

    loss: LossSection = key(LossSection(), "How errors are counted.")
    energy_weight: float = key(
        10.0, "Weight of the error of the energy per atom.", unit="1/(eV/atom)^2", ge=0
    )
    forces_weight: float = key(
        10.0, "Weight of the errors of force components.", unit="1/(eV/Angstrom)^2", ge=0
    )
    stress_weight: float | None = key(
        None,
        "Weight of the errors of stress components; 100 where there are stresses by default.",
        unit="1/(eV/Angstrom^3)^2",
        ge=0,
    )

    hvps_weight: float | None = key(
        None,
        "Weight of the errors of Hessian-vector products, where frames have them: each frame is "
        "compared along one of its directions in each epoch, in turn; 0.1 where there are such "
        "labels by default.",
        unit="1/(eV/Angstrom^2)^2",
        ge=0,
    )
    stages: list[StageSection] = key(
        [],
        "Changes of the weights of the loss during training. Validation counts with the weights of "
        "the last stage all along, so that epochs can be compared.",
    )
    config_type_weights: dict[str, Annotated[float, Field(ge=0)]] = key(
        {},
        "Factors of the weights of frames by their config_type, such as {surface: 4}; others 1.",
    )

    seed: int = key(0, "Of the split and the order of frames, and of the model.", ge=0)
    model_seed: int | None = key(
        None, "Of the initial parameters, where it is not to be seed.", ge=0
    )
    n_models: int = key(
        1,
        "Members of a committee: potentials with model seeds that count up, trained one after "
        "another on the same frames, in the folders member1, member2, ...",
        ge=1,
    )
    dtype: Literal["float32", "float64"] = key(
        "float32", "Precision of the computation; float64 runs on the CPU only."
    )
    feature_dtype: Literal["float32", "float16", "bfloat16"] = key(
        "float32",
        "Number type of features in the convolutions during training; 16 bits for large batches "
        "on GPUs. Parameters, their gradients and the saved model stay in dtype.",
    )
    device: Literal["auto", "cpu", "gpu"] = key(
        "auto", "Where to compute; auto takes a GPU for float32 where there is one."
    )

    record_steps: Recording = key(
        "auto",
        "Record the operations of a step for sizes of batches that come again, instead of building "
        "them anew; batches are then padded to few sizes. auto: on GPUs, and on CPUs for batches "
        "of fewer than about 2000 pairs of neighbours.",
    )

    save_minutes: float = key(
        10.0,
        "Time after which the state is saved within an epoch; at the end of each epoch it always "
        "is.",
        unit="minutes",
        gt=0,
    )

    logging: LoggingSection = key(LoggingSection(), "Other programs that watch the run.")
    keys: KeysSection = key(KeysSection(), "Names of the labels in the data files.")
    units: UnitsSection = key(UnitsSection(), "Units of the data files.")

    @pydantic.model_validator(mode="after")
    def _consistent(self) -> TrainConfig:
        if self.valid_file is not None and "valid_fraction" in self.model_fields_set:
            raise ValueError("valid_file and valid_fraction exclude each other: leave one out")
        given = {"model", "zbl"} & self.model_fields_set
        if self.start_from is not None and given:
            raise ValueError(
                f"start_from brings its own {' and '.join(sorted(given))}: leave that out"
            )
        if self.start_from is None and self.rehearsal is not None:
            raise ValueError("rehearsal goes with start_from: put all data into train_file")
        if self.dtype == "float64" and self.device == "gpu":
            raise ValueError("dtype float64 runs on the CPU only: set device to cpu or auto")
        if self.dtype == "float64" and self.feature_dtype != "float32":
            raise ValueError("dtype float64 has features of its own: leave feature_dtype out")
        begins = [stage.from_epoch for stage in self.stages]
        if begins != sorted(set(begins)):
            raise ValueError(f"stages begin in epochs {begins}: put them in order")
        for epoch in (1, *begins):
            weights = self.weights(epoch)
            if self.hvps_weight is None and not any(s.hvps_weight for s in self.stages):
                del weights["hvps"]  # nobody asked for these
            if not any(weights.values()):
                raise ValueError(
                    f"all weights (energy_weight, forces_weight, ...) are 0 in epoch {epoch}"
                )
        scheduled = "scheduler" in self.model_fields_set and self.scheduler.name != "constant"
        if self.optimizer.name == "schedule_free" and scheduled:
            raise ValueError(
                "the optimizer schedule_free takes the place of a schedule: leave scheduler out or "
                "set its name to constant"
            )
        return self

    def weights(self, epoch: int | None = None) -> dict[str, float]:
        """Weights of the terms of the loss: energy, forces, stress, hvps.

        Args:
            epoch: counted from 1; the last stage where None.
        """
        stress = _STRESS_WEIGHT if self.stress_weight is None else self.stress_weight
        hvps = _HVPS_WEIGHT if self.hvps_weight is None else self.hvps_weight
        found = {"energy": self.energy_weight, "forces": self.forces_weight}
        found |= {"stress": stress, "hvps": hvps}
        for stage in self.stages:
            if epoch is None or stage.from_epoch <= epoch:
                changes = {term: getattr(stage, f"{term}_weight") for term in found}
                found |= {term: value for term, value in changes.items() if value is not None}
        return found

    def counts(self, term: str) -> bool:
        """Whether a term has a weight above 0 in some epoch."""
        epochs = (1, *(stage.from_epoch for stage in self.stages))
        return any(self.weights(epoch)[term] > 0 for epoch in epochs)

    def constant_rates(self) -> dict[int, float]:
        """Constant learning rates of stages, by the epoch (from 1) from which on they hold."""
        return {stage.from_epoch: stage.lr for stage in self.stages if stage.lr is not None}

    def test_files(self) -> list[str]:
        """Test files as a list."""
        return as_list(self.test_file)

    def plain(self) -> dict:
        """All keys with plain values, defaults included, as they stand in a file."""
        data = self.model_dump(mode="json")
        if self.optimizer.name == "schedule_free":
            del data["scheduler"]
        if self.valid_file is not None:
            del data["valid_fraction"]
        if self.start_from is not None:
            del data["model"], data["zbl"]
        if isinstance(self.E0s, dict):
            data["E0s"] = {symbol(z): energy for z, energy in self.E0s.items()}
        return data


def as_list(files: Files | None) -> list[str]:
    """Names of files as a list."""
    if files is None:
        return []
    return [files] if isinstance(files, str) else list(files)


def load_config(path: str | os.PathLike[str]) -> TrainConfig:
    """Read a configuration file; names of data files become absolute and ``out`` is filled in.

    Args:
        path: a YAML file.

    Returns:
        The checked configuration.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: with every problem named.
    """
    path = Path(path)
    config = load_yaml(path, TrainConfig)
    folder = path.resolve().parent
    changes: dict = {"out": config.out or str(Path("runs") / path.stem)}
    for name in ("train_file", "valid_file", "test_file"):
        files = getattr(config, name)
        if files is not None:
            changes[name] = [str(folder / file) for file in as_list(files)]
    if config.rehearsal is not None:
        old = [str(folder / file) for file in as_list(config.rehearsal.file)]
        changes["rehearsal"] = config.rehearsal.model_copy(update={"file": old})
    if config.start_from is not None and (folder / config.start_from).is_file():
        changes["start_from"] = str(folder / config.start_from)
    return config.model_copy(update=changes)
