"""Whole runs: from a configuration, or from where one stopped, to the report."""

from __future__ import annotations

import contextlib
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import mlx.core as mx
import numpy as np

from mlpot.config import validate
from mlpot.models import Potential, PotentialConfig

from .checkpoint import share_checkpoint
from .config import TrainConfig
from .errors import ErrorRow
from .finish import finish
from .loading import describe
from .loggers import Loggers, check_loggers
from .parallel import Ranks, find_ranks
from .preparation import (
    TrainingData,
    doubt_about_E0s,
    make_potential,
    read_data,
    rounded,
    statistics,
)
from .run_folder import RunFolder
from .trainer import Trainer
from .view import ProgressView

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class Run:
    """What came out of training.

    Args:
        folder: of the run.
        potential: the best model.
        errors: on training, validation and test frames. Where several processes train together
            only the first has these and the best model; others have the last one.
        reason: why training ended.
        members: runs of the members of a committee; the potential is then that of the first.
    """

    folder: RunFolder
    potential: Potential
    errors: list[ErrorRow]
    reason: str
    members: tuple[Run, ...] = ()


def train_one(config: TrainConfig, overwrite: bool = False, console: Console | None = None) -> Run:
    """Train one potential, in the folder of the run itself; see `mlpot.training.train`."""
    if config.out is None:
        raise ValueError("out is not given: name the folder of the run")
    ranks = find_ranks()
    console = console if console is not None and ranks.first else silent()
    folder = RunFolder(config.out, writes=ranks.first)
    with mx.stream(compute_device(config)):
        with ranks:
            check_loggers(config.logging)
            if ranks.first and not overwrite:
                folder.refuse_existing()
            data = read_data(config)
            potential = make_potential(config, data)
            trainer = Trainer(config, potential, data, folder, ranks)
        _same_data(ranks, data)
        _describe(console, config, data, potential)
        if config.freeze or config.adapters is not None:
            _say(console, trainer.state.describe())
        with ranks:
            folder.start()
            folder.write_config(config.plain())
            folder.write_json(folder.split, data.split)
            folder.write_json(folder.statistics, statistics(potential, data))
            trainer.save()
        return _run(trainer, console)


def resume_one(path: str | os.PathLike[str], console: Console | None = None) -> Run:
    """Go on with the run of one potential; see `mlpot.training.resume`."""
    ranks = find_ranks()
    console = console if console is not None and ranks.first else silent()
    folder = RunFolder(path, writes=ranks.first)
    if ranks.size == 1 and not folder.last.is_file():
        raise FileNotFoundError(f"{folder.path} holds no run: {folder.last} does not exist")
    checkpoint = share_checkpoint(folder.last, ranks)
    config = validate(checkpoint.config, TrainConfig, f"configuration in {folder.last}")
    with mx.stream(compute_device(config)):
        with ranks:
            data = read_data(config)
            potential = Potential(validate(checkpoint.potential, PotentialConfig, str(folder.last)))
            if config.dtype == "float64":
                potential.set_dtype(mx.float64)
            trainer = Trainer(config, potential, data, folder, ranks)
            trainer.load(checkpoint)
        folder.remove_leftovers()
        folder.forget_metrics_after(trainer.progress.epoch)
        if trainer.finished is None:
            progress = trainer.progress
            _say(console, f"Going on in epoch {progress.epoch + 1} after step {progress.step}.")
        else:
            _say(console, f"Nothing is left to train in {folder.path}: {trainer.finished}.")
        return _run(trainer, console)


def _run(trainer: Trainer, console: Console) -> Run:
    config, folder = trainer.config, trainer.folder
    view = ProgressView(
        console, config.max_num_epochs, trainer.steps_per_epoch, trainer.progress.step
    )
    with contextlib.ExitStack() as stack:
        if folder.writes and trainer.finished is None:
            loggers = Loggers(config.logging, folder.path, config.plain(), trainer.progress.epoch)
            view.listeners.append(stack.enter_context(loggers).epoch)
        stack.enter_context(view)
        reason = trainer.run(view)
    if not trainer.ranks.first:
        return Run(folder, trainer.potential, [], reason)
    potential, rows = finish(trainer, reason, console)
    return Run(folder, potential, rows, reason)


def _same_data(ranks: Ranks, data: TrainingData) -> None:
    """Refuse to train together on different frames."""
    if ranks.size == 1:
        return
    digests = ranks.gather(np.frombuffer(bytes.fromhex(data.digest()), np.int32))
    different = np.flatnonzero((digests != digests[0]).any(axis=1))
    if len(different):
        raise ValueError(
            f"process {different[0]} reads other training or validation frames than process 0: "
            "give all machines the same files"
        )


def compute_device(config: TrainConfig) -> mx.Device:
    """Where a configuration computes."""
    gpu = mx.is_available(mx.gpu)
    if config.device == "gpu" and not gpu:
        raise ValueError("device is gpu, but MLX finds none here: set device to auto or cpu")
    if config.device == "cpu" or config.dtype == "float64" or not gpu:
        return mx.Device(mx.cpu)
    return mx.Device(mx.gpu)


def _describe(
    console: Console, config: TrainConfig, data: TrainingData, potential: Potential
) -> None:
    for name, frames in data.sets().items():
        console.rule(name, align="left", style="dim")
        _say(console, describe(frames))
    console.rule("model", align="left", style="dim")
    for name, value in statistics(potential, data).items():
        _say(console, f"{name}: {rounded(value)}")
    for note in data.notes:
        _say(console, note)
    if doubt := doubt_about_E0s(config, data):
        _say(console, doubt)
    _say(console, f"device: {mx.default_device()}, {config.dtype}; folder: {config.out}")


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def silent() -> Console:
    """A console that prints nothing."""
    from rich.console import Console

    return Console(quiet=True, file=sys.stderr)
