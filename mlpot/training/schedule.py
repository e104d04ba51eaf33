"""The learning rate at each step."""

from __future__ import annotations

import math
from collections.abc import Mapping

from .config_sections import SchedulerSection


class Schedule:
    """Learning rate: a linear warm-up times what the configuration says.

    cosine: ``lr (f + (1 - f) (1 + cos(pi t)) / 2)``, t from 0 at the end of the warm-up to 1 at the
    end of training, f the final fraction. plateau: ``lr factor^k``, not below ``lr f``, k the
    number of times that ``patience`` epochs went by without a better validation loss.

    Args:
        section: of the configuration.
        lr: largest rate.
        steps_per_epoch: optimiser steps in an epoch.
        n_epochs: epochs in all.
        constants: rates that hold from an epoch on, counted from 1.
    """

    def __init__(
        self,
        section: SchedulerSection,
        lr: float,
        steps_per_epoch: int,
        n_epochs: int,
        constants: Mapping[int, float] | None = None,
    ) -> None:
        self._constants = {
            (epoch - 1) * steps_per_epoch: rate for epoch, rate in sorted((constants or {}).items())
        }
        self.section, self.lr = section, lr
        self.warmup = round(section.warmup_epochs * steps_per_epoch)
        self.n_steps = steps_per_epoch * n_epochs
        self.reductions, self.best, self.waited = 0, math.inf, 0

    def rate(self, step: int) -> float:
        """Learning rate of a step, counted from 0."""
        held = [rate for first, rate in self._constants.items() if first <= step]
        if held:
            return held[-1]
        if step < self.warmup:
            return self.lr * (step + 1) / self.warmup * self._factor(self.warmup)
        return self.lr * self._factor(step)

    def _factor(self, step: int) -> float:
        low = self.section.final_fraction
        if self.section.name == "cosine":
            t = min(1.0, (step - self.warmup) / max(1, self.n_steps - self.warmup))
            return low + (1 - low) * (1 + math.cos(math.pi * t)) / 2
        if self.section.name == "plateau":
            return max(low, self.section.factor**self.reductions)
        return 1.0

    def observe(self, loss: float) -> None:
        """Take note of the validation loss of an epoch."""
        if loss < self.best:
            self.best, self.waited = loss, 0
            return
        self.waited += 1
        if self.waited >= self.section.patience:
            self.reductions, self.waited = self.reductions + 1, 0

    def state(self) -> dict:
        """What has to be stored to go on."""
        best = self.best if math.isfinite(self.best) else None
        return {"reductions": self.reductions, "best": best, "waited": self.waited}

    def load(self, state: dict) -> None:
        """Go on from a stored state."""
        self.reductions, self.waited = int(state["reductions"]), int(state["waited"])
        self.best = math.inf if state["best"] is None else float(state["best"])
