"""The training loop."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import mlx.core as mx
import numpy as np

from mlpot._signals import SignalWatch
from mlpot.datasets import Batch, closest_pair
from mlpot.io import save
from mlpot.models.radial_strategy import trains_with_tables

from .ahead import ahead, grouped
from .average import decay_at
from .checkpoint import Checkpoint, write_checkpoint
from .config import TrainConfig, as_list
from .interrupt import Interrupted
from .loading import sampled
from .not_finite import frames_not_finite
from .objective import TERMS, Objective, errors
from .parallel import Ranks
from .preparation import TrainingData, uses_hvps, uses_stress
from .progress import Progress, no_sums, random_state, set_random_state
from .run_folder import RunFolder
from .schedule import Schedule
from .state import TrainState, averaged
from .step import TrainStep
from .supply import make_batches, records_steps
from .view import ProgressView

if TYPE_CHECKING:
    from mlpot.models import Potential

_AGREE_EVERY = 10  # batches after which several processes ask each other whether to stop
#: Seconds after which the end of an epoch is saved: epochs of small systems on a GPU take a tenth
#: of a second, and what is lost by a kill is computed again, bit by bit.
_SAVE_EVERY = 2.0


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
        potential.set_feature_dtype(config.feature_dtype)
        self.state = TrainState(potential, config)
        self.objective = Objective(config.loss, config.weights())
        recorded = records_steps(config, potential, data)
        self.step = TrainStep(
            self.state,
            self.objective,
            uses_stress(config, data),
            config.clip_grad,
            self.ranks,
            record=recorded,
            hvps=uses_hvps(config, data),
        )
        self.train_batches, self.valid_batches = make_batches(
            config, potential, data, self.ranks, recorded
        )
        scheduler = config.scheduler
        if config.optimizer.name == "schedule_free":
            scheduler = scheduler.model_copy(update={"name": "constant"})
        self.schedule = Schedule(
            scheduler,
            config.lr,
            self.steps_per_epoch,
            config.max_num_epochs,
            config.constant_rates(),
        )
        self.progress = Progress(shifts={str(z): shift for z, shift in data.shifts.items()})
        self._digest = data.digest()
        self._closest: float | None = None
        self._saved = -math.inf  # time.monotonic()
        self._saved_step = -1

    @property
    def steps_per_epoch(self) -> int:
        """Steps of the optimiser in an epoch."""
        return -(-len(self.train_batches) // self.config.accumulation_steps)

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
            OSError: something cannot be written; the state before it stays.
        """
        with SignalWatch() as watch:
            try:
                while (reason := self.finished) is None:
                    self._epoch(view, watch)
                    self._validate(view)
                    self._stop_if(watch)
                if self._saved_step != self.progress.step:
                    self.save()
            except OSError as error:
                raise OSError(
                    f"{error}\nThe last state that was saved is good. Make room if the disk is "
                    f"full, and go on with:\n  mlpot resume {self.folder.path}"
                ) from error
        return reason

    def _epoch(self, view: ProgressView, watch: SignalWatch) -> None:
        progress = self.progress
        began = time.monotonic()
        if self.ranks.size > 1:
            # Machines of different kinds may round differently: nothing may add up.
            self.state.load(self.ranks.share_arrays(self.state.arrays))
        self.state.put()
        self.objective.weights = self._weights(progress.epoch + 1)
        if progress.batch == 0 and trains_with_tables(self.potential.network.radial_strategy):
            # Weights that have become sharper functions of the distance need finer tables.
            progress.radial_intervals = self.potential.needed_radial_intervals()
            self.potential.set_radial_intervals(progress.radial_intervals)
        first = began
        batches = ahead(self.train_batches.epoch(progress.epoch, start=progress.batch))
        for parts in grouped(batches, self.config.accumulation_steps):
            loss = self._step(parts)
            now = time.monotonic()
            progress.seconds, began = progress.seconds + now - began, now
            view.step(progress.epoch + 1, loss)
            # Several processes have to agree on a stop, which costs a message.
            if progress.batch < len(self.train_batches) and (
                self.ranks.size == 1 or progress.batch % _AGREE_EVERY == 0
            ):
                self._stop_if(watch)
                if now - max(self._saved, first) > 60 * self.config.save_minutes:
                    self.save()

    def _step(self, batches: Sequence[Batch]) -> float:
        progress = self.progress
        before = self.state.arrays
        rate = mx.array(self.schedule.rate(progress.step), dtype=mx.float32)
        decay = mx.array(decay_at(progress.step, self.config.ema_decay or 0), dtype=mx.float32)
        result = self.step([(batch.graph, batch.labels) for batch in batches], rate, decay)
        # The only evaluation: everything above is one graph.
        mx.eval(result, self.state.arrays)
        loss, norm = to_float(result.loss), to_float(result.gradient_norm)
        if not (math.isfinite(loss) and math.isfinite(norm)):
            self.state.arrays = before
            self._explain_not_finite([index for batch in batches for index in batch.indices])
        progress.add(len(batches), np.array(result.sums), norm)
        return loss

    def _validate(self, view: ProgressView) -> None:
        began = time.monotonic()
        sums = np.zeros((len(TERMS), 4))
        self.objective.weights = self._weights(None)
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
        progress.sums, progress.gradient_norm = no_sums(), 0.0
        # A line without its checkpoint is dropped on going on; the other way round it would lack.
        self.folder.add_metrics(row)
        if time.monotonic() - self._saved > _SAVE_EVERY:
            self.save()
        view.epoch(row, better)

    def _weights(self, epoch: int | None) -> tuple[float, ...]:
        weights = self.config.weights(epoch)
        return tuple(weights[term] for term in TERMS)

    def _row(self, loss: float, sums: np.ndarray) -> dict[str, float | None]:
        progress = self.progress
        trained = np.array(progress.sums)
        row: dict[str, float | None] = {
            "epoch": progress.epoch,
            "step": progress.step,
            "lr": self.schedule.rate(progress.step - 1),
            "train_loss": self.objective.total(trained),
            "valid_loss": loss,
            "gradient_norm": progress.gradient_norm / self.steps_per_epoch,
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
            self._closest = closest_pair(sampled(self.data.train)) or 0.0
        if self._closest > 0:
            # Molecular dynamics warns when atoms come closer than that.
            metadata["closest_pair"] = repr(self._closest)
        save(self.folder.best, self.potential, metadata)

    def save(self) -> None:
        """Write ``last.safetensors``; the one before is kept."""
        self._saved, self._saved_step = time.monotonic(), self.progress.step
        self.progress.schedule = self.schedule.state()
        if not self.folder.writes:
            return
        write_checkpoint(
            self.folder.last,
            Checkpoint(
                arrays=self.state.arrays | {"random": random_state()},
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
        set_random_state(random)
        self.progress = Progress(**checkpoint.progress)
        # Runs of older versions had fewer terms.
        self.progress.sums += no_sums()[len(self.progress.sums) :]
        self.schedule.load(self.progress.schedule)
        self.data.shifts |= {int(z): shift for z, shift in self.progress.shifts.items()}
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
        """Stop with the frames of a step that make the loss or its gradient not finite."""
        n_rows = self.config.batch_size * self.config.accumulation_steps
        named = frames_not_finite(self.step, self.train_batches.frames, indices, n_rows, self.ranks)
        self.save()
        raise ValueError(
            f"the loss is not finite in epoch {self.progress.epoch + 1}, step "
            f"{self.progress.step + 1}; frames: {', '.join(named)}\n"
            f"Look at these frames (labels, distances), or lower lr (now {self.config.lr}) or "
            f"clip_grad. The state before this step is saved in {self.folder.last}"
            + (f", the best model in {self.folder.best}" if self.folder.best.exists() else "")
        )


def to_float(scalar: mx.array) -> float:
    """The number in an evaluated array."""
    return float(np.array(scalar))
