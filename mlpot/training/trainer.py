"""The training loop."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import numpy as np

from mlpot.datasets import Batch, Batches, Frame, closest_pair, collate
from mlpot.io import save

from .ahead import ahead
from .average import decay_at
from .checkpoint import Checkpoint, write_checkpoint
from .config import TrainConfig, as_list
from .interrupt import Interrupted, SignalWatch
from .objective import TERMS, Objective, errors
from .parallel import Ranks
from .preparation import TrainingData, uses_stress
from .run_folder import RunFolder
from .schedule import Schedule
from .state import TrainState, averaged
from .step import TrainStep
from .view import ProgressView

if TYPE_CHECKING:
    from mlpot.models import Potential

_AGREE_EVERY = 10  # batches after which several processes ask each other whether to stop


@dataclass
class Progress:
    """Where a run stands.

    Args:
        epoch: epochs that are complete.
        batch: batches of the present epoch that are done.
        step: steps in all.
        best_loss: smallest validation loss, None before the first.
        best_epoch: epoch it belongs to.
        sums: errors of the present epoch so far, see `Objective.sums`.
        gradient_norm: sum over the present epoch so far.
        seconds: spent, over all parts of a run.
        schedule: state of the learning rate.
        radial_intervals: of the radial tables in the present epoch.
    """

    epoch: int = 0
    batch: int = 0
    step: int = 0
    best_loss: float | None = None
    best_epoch: int = 0
    sums: list[list[float]] = field(default_factory=lambda: [[0.0] * 4 for _ in TERMS])
    gradient_norm: float = 0.0
    seconds: float = 0.0
    schedule: dict = field(default_factory=dict)
    radial_intervals: list[int] = field(default_factory=list)


class Trainer:
    """Trains a potential in a folder.

    Args:
        config: of the run.
        potential: model, changed by training; its dtype is that of the configuration.
        data: frames.
        folder: where checkpoints and metrics go.
        ranks: processes that train together, each with its own trainer; only the first writes.
    """

    def __init__(
        self,
        config: TrainConfig,
        potential: Potential,
        data: TrainingData,
        folder: RunFolder,
        ranks: Ranks | None = None,
    ) -> None:
        self.ranks = ranks or Ranks()
        self.config, self.potential, self.data, self.folder = config, potential, data, folder
        self.state = TrainState(potential, config)
        self.objective = Objective(config.loss, config.weights())
        self.step = TrainStep(
            self.state, self.objective, uses_stress(config, data), config.clip_grad, self.ranks
        )
        self.train_batches = self._batches(data.train, config.batch_size)
        self.valid_batches = self._batches(
            data.valid, config.valid_batch_size or config.batch_size, shuffle=False
        )
        self.schedule = Schedule(
            config.scheduler, config.lr, len(self.train_batches), config.max_num_epochs
        )
        self.progress = Progress()
        self._digest = data.digest()
        self._closest: float | None = None

    def _batches(self, frames: Sequence[Frame], size: int, shuffle: bool = True) -> Batches:
        return Batches(
            frames,
            size,
            self.potential.cutoff,
            E0s=self.potential.config.E0s,
            dtype=self.potential.dtype,
            seed=self.config.seed,
            shuffle=shuffle,
            part=(self.ranks.rank, self.ranks.size),
            pad=self._pads,
        )

    @property
    def _pads(self) -> bool:
        """Equal sizes serve what is compiled for a size, on a GPU."""
        return mx.default_device().type == mx.DeviceType.gpu

    @property
    def finished(self) -> str | None:
        """Why training is over; None while it is not."""
        patience, progress = self.config.patience, self.progress
        if progress.epoch >= self.config.max_num_epochs:
            return f"{progress.epoch} epochs done"
        if patience is not None and progress.epoch - progress.best_epoch >= patience:
            return f"no better validation loss for {patience} epochs"
        return None

    def run(self, view: ProgressView) -> str:
        """Train until the end.

        Args:
            view: is told about steps and epochs.

        Returns:
            Why training is over.

        Raises:
            Interrupted: a signal came; the state is saved.
            ValueError: the loss is not finite; the last good state is saved.
        """
        with SignalWatch() as watch:
            while (reason := self.finished) is None:
                self._epoch(view, watch)
                self._validate(view)
                self._stop_if(watch)
        return reason

    def _epoch(self, view: ProgressView, watch: SignalWatch) -> None:
        progress = self.progress
        began = time.monotonic()
        if self.ranks.size > 1:
            # Machines of different kinds may round differently: nothing may add up.
            self.state.load(self.ranks.share_arrays(self.state.arrays()))
        if progress.batch == 0:
            # Weights that have become sharper functions of the distance need finer tables.
            progress.radial_intervals = self.potential.needed_radial_intervals()
            self.potential.set_radial_intervals(progress.radial_intervals)
        for batch in ahead(self.train_batches.epoch(progress.epoch, start=progress.batch)):
            loss = self._step(batch)
            now = time.monotonic()
            progress.seconds, began = progress.seconds + now - began, now
            view.step(progress.epoch + 1, loss)
            # Several processes have to agree on a stop, which costs a message.
            if progress.batch < len(self.train_batches) and (
                self.ranks.size == 1 or progress.batch % _AGREE_EVERY == 0
            ):
                self._stop_if(watch)

    def _step(self, batch: Batch) -> float:
        progress = self.progress
        before = self.state.arrays()
        rate = mx.array(self.schedule.rate(progress.step), dtype=mx.float32)
        decay = mx.array(decay_at(progress.step, self.config.ema_decay or 0), dtype=mx.float32)
        result = self.step(batch.graph, batch.labels, rate, decay)
        # The only evaluation: everything above is one graph.
        mx.eval(result, self.state.arrays())
        loss, norm = to_float(result.loss), to_float(result.gradient_norm)
        if not (math.isfinite(loss) and math.isfinite(norm)):
            self.state.load(before)
            self._explain_not_finite(batch.indices)
        progress.step, progress.batch = progress.step + 1, progress.batch + 1
        progress.sums = (np.array(progress.sums) + np.array(result.sums)).tolist()
        progress.gradient_norm += norm
        return loss

    def _validate(self, view: ProgressView) -> None:
        began = time.monotonic()
        sums = np.zeros((len(TERMS), 4))
        with averaged(self.state):
            for batch in ahead(self.valid_batches.epoch()):
                part = self.ranks.sum(self.step.sums(batch.graph, batch.labels))
                mx.eval(part)
                sums += np.array(part)
            loss = self.objective.total(sums)
            progress = self.progress
            progress.epoch, progress.batch = progress.epoch + 1, 0
            better = math.isfinite(loss) and (
                progress.best_loss is None or loss < progress.best_loss
            )
            if better:
                progress.best_loss, progress.best_epoch = loss, progress.epoch
                self._save_best()
        row = self._row(loss, sums)
        self.schedule.observe(loss)
        progress.seconds += time.monotonic() - began
        progress.sums, progress.gradient_norm = Progress().sums, 0.0
        # A line without its checkpoint is dropped on going on; the other way round it would lack.
        self.folder.add_metrics(row)
        self.save()
        view.epoch(row, better)

    def _row(self, loss: float, sums: np.ndarray) -> dict[str, float | None]:
        progress = self.progress
        trained = np.array(progress.sums)
        row: dict[str, float | None] = {
            "epoch": progress.epoch,
            "step": progress.step,
            "lr": self.schedule.rate(progress.step - 1),
            "train_loss": self.objective.total(trained),
            "valid_loss": loss,
            "gradient_norm": progress.gradient_norm / len(self.train_batches),
            "seconds": round(progress.seconds, 3),
        }
        for part, known in (("train", trained), ("valid", sums)):
            row |= {f"{part}_{name}": value for name, value in errors(known).items()}
        return row

    def _save_best(self) -> None:
        if not self.folder.writes:
            return
        progress = self.progress
        metadata = {
            "epoch": str(progress.best_epoch),
            "valid_loss": repr(progress.best_loss),
            "train_file": ", ".join(as_list(self.config.train_file)),
        }
        if self._closest is None:
            self._closest = closest_pair(self.data.train) or 0.0
        if self._closest > 0:
            # Molecular dynamics warns when atoms come closer than that.
            metadata["closest_pair"] = repr(self._closest)
        save(self.folder.best, self.potential, metadata)

    def save(self) -> None:
        """Write ``last.safetensors``; the one before is kept."""
        self.progress.schedule = self.schedule.state()
        if not self.folder.writes:
            return
        write_checkpoint(
            self.folder.last,
            Checkpoint(
                arrays=self.state.arrays() | {"random": _random_state()},
                progress=asdict(self.progress),
                config=self.config.plain(),
                potential=self.potential.config.model_dump(mode="json"),
                data=self._digest,
            ),
        )

    def load(self, checkpoint: Checkpoint) -> None:
        """Go on from what ``last.safetensors`` holds.

        Args:
            checkpoint: of this run.

        Raises:
            ValueError: it does not belong to this configuration and data.
        """
        if checkpoint.data != self._digest:
            raise ValueError(
                f"the training data of {self.folder.path} are not what they were when the run "
                "began: bring them back, or train anew in another folder"
            )
        random = checkpoint.arrays.pop("random")
        self.state.load(checkpoint.arrays)
        _set_random_state(random)
        self.progress = Progress(**checkpoint.progress)
        self.schedule.load(self.progress.schedule)
        if self.progress.radial_intervals:
            self.potential.set_radial_intervals(self.progress.radial_intervals)

    def _stop_if(self, watch: SignalWatch) -> None:
        if self.finished is not None:
            return
        received = int(self.ranks.gather(np.array(watch.received or 0)).max())
        if received == 0:
            return
        self.save()
        raise Interrupted(
            received,
            f"stopped in epoch {self.progress.epoch + 1} after step {self.progress.step}; "
            f"everything is saved. Go on with:\n  mlpot resume {self.folder.path}",
        )

    def _explain_not_finite(self, indices: Sequence[int]) -> None:
        """Name the frames of a batch that make the loss or its gradient not finite."""
        own = np.full((self.config.batch_size, 2), -1)  # frame, whether it is one of them
        for row, index in enumerate(indices):
            graph, labels = collate(
                [self.data.train[index]],
                self.potential.cutoff,
                self.potential.dtype,
                E0s=self.potential.config.E0s,
                pad=self._pads,
            )
            result, _ = self.step.gradient(graph, labels)
            mx.eval(result.loss, result.gradient_norm)
            finite = math.isfinite(to_float(result.loss) + to_float(result.gradient_norm))
            own[row] = index, not finite
        found = self.ranks.gather(own).reshape(-1, 2)
        found = found[found[:, 0] >= 0]
        wrong = found[found[:, 1] == 1, 0]
        frames = [self.data.train[int(i)] for i in (wrong if len(wrong) else found[:, 0])]
        named = [frame.source or frame.formula for frame in frames]
        self.save()
        raise ValueError(
            f"the loss is not finite in epoch {self.progress.epoch + 1}, step "
            f"{self.progress.step + 1}; frames: {', '.join(named)}\n"
            f"Look at these frames (labels, distances), or lower lr (now {self.config.lr}) or "
            f"clip_grad. The state before this step is saved in {self.folder.last}"
            + (f", the best model in {self.folder.best}" if self.folder.best.exists() else "")
        )


def _random_state() -> mx.array:
    state: Any = mx.random.state  # a list of one array, the key
    return state[0]


def _set_random_state(key: mx.array) -> None:
    """MLX takes no key as its state, but makes the key of a seed from its two halves."""
    high, low = np.array(key).tolist()
    mx.random.seed(high << 32 | low)


def to_float(scalar: mx.array) -> float:
    """The number in an evaluated array."""
    return float(np.array(scalar))
