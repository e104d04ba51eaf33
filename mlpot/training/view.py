"""What one sees of a running training: a bar in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

_LINES = 20  # about as many in a run
#: Of a row: the head of the column, the unit, and the factor from eV to it.
_COLUMNS = {
    "train_loss": ("train loss", "", 1.0),
    "valid_loss": ("valid", "", 1.0),
    "valid_energy_rmse": ("energy", "meV/atom", 1e3),
    "valid_forces_rmse": ("forces", "meV/Å", 1e3),
    "valid_stress_rmse": ("stress", "meV/Å³", 1e3),
    "valid_hvps_rmse": ("Hessian", "meV/Å²", 1e3),
    "lr": ("rate", "", 1.0),
}


class ProgressView:
    """Progress of training with the time that is left.

    Args:
        console: where to print.
        n_epochs: epochs in all.
        steps_per_epoch: steps in each.
        done: steps that were done before, when a run goes on.
    """

    def __init__(
        self, console: Console, n_epochs: int, steps_per_epoch: int, done: int = 0
    ) -> None:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        self.console, self.n_epochs = console, n_epochs
        self.n_steps, self.done, self.first = n_epochs * steps_per_epoch, done, done
        self.every = max(1, n_epochs // _LINES)
        self.began = time.monotonic()
        self.columns: list[str] = []
        #: Called with the numbers of each epoch.
        self.listeners: list[Callable[[Mapping[str, float | None]], None]] = []
        self.bar = Progress(
            TextColumn("epoch {task.fields[epoch]}/{task.fields[n_epochs]}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("steps"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("loss {task.fields[loss]}"),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self.task = self.bar.add_task(
            "train",
            total=self.n_steps,
            completed=done,
            epoch=done // max(1, steps_per_epoch),
            n_epochs=n_epochs,
            loss="-",
        )

    def __enter__(self) -> ProgressView:
        self.bar.start()
        return self

    def __exit__(self, *_) -> None:
        self.bar.stop()

    def step(self, epoch: int, loss: float) -> None:
        """A step is done.

        Args:
            epoch: from 1.
            loss: of the batch.
        """
        self.done += 1
        self.bar.update(self.task, advance=1, epoch=epoch, loss=f"{loss:.3g}")

    def epoch(self, row: Mapping[str, float | None], better: bool) -> None:
        """An epoch is done.

        Args:
            row: of ``metrics.csv``.
            better: whether the model is the best so far.
        """
        for listener in self.listeners:
            listener(row)
        epoch = int(row["epoch"] or 0)
        if epoch % self.every and epoch not in (1, self.n_epochs):
            return
        if not self.columns:
            # Products of the Hessian are rare; what has no labels would only take space.
            products = row.get("valid_hvps_rmse") is not None
            self.columns = [name for name in _COLUMNS if products or "hvps" not in name]
            shown = [_COLUMNS[name] for name in self.columns]
            heads = "".join(f"{head:>{11 - bool(k)}}" for k, (head, _, _) in enumerate(shown))
            self._print(f" epoch{heads}     left")
            units = "".join(f"{unit:>10}" for _, unit, _ in shown[2:-1])
            self._print(f"{'':26} {units}   (RMSE; * best)")
        cells = [f"{epoch:6d} "]
        for name in self.columns:
            value, factor = row.get(name), _COLUMNS[name][2]
            cells.append(f"{'-' if value is None else f'{factor * value:.3g}':>10}")
        cells.append(f"{_duration(self._left()):>9}")
        self._print("".join(cells) + (" *" if better else ""))

    def _print(self, text: str) -> None:
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def _left(self) -> float:
        spent = time.monotonic() - self.began
        return spent / max(1, self.done - self.first) * (self.n_steps - self.done)


def _duration(seconds: float) -> str:
    whole = round(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"
