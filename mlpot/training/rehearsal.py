"""Old data mixed into the new, so that a model does not forget what it knew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlpot.datasets import Batches, Frame


class MixedFrames(Sequence[Frame]):
    """New frames, and behind them old ones with a weight and with energies that fit the model.

    Args:
        new: frames to train on.
        old: frames of what was trained on before.
        weight: factor of the weights of old frames.
        shifts: added to the energies of old frames, for each atom by its element, eV.
    """

    def __init__(
        self,
        new: Sequence[Frame],
        old: Sequence[Frame],
        weight: float,
        shifts: dict[int, float],
    ) -> None:
        self.new, self.old, self._weight, self._shifts = new, old, weight, shifts

    def __len__(self) -> int:
        return len(self.new) + len(self.old)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if index < len(self.new):
            return self.new[index]
        frame = self.old[index - len(self.new)]
        changes: dict[str, Any] = {"weight": self._weight * frame.weight}
        if frame.energy is not None:
            shift = sum(self._shifts.get(int(z), 0.0) for z in frame.numbers)
            changes["energy"] = frame.energy + shift
        return frame.replace(**changes)


class MixedBatches(Batches):
    """Batches of all new frames and some old ones, chosen anew in each epoch.

    Args:
        frames: of both kinds.
        batch_size: frames a batch.
        cutoff: Angstrom.
        n_old: old frames in each epoch.
        options: of `Batches`.
    """

    def __init__(
        self, frames: MixedFrames, batch_size: int, cutoff: float, *, n_old: int, **options: Any
    ) -> None:
        super().__init__(frames, batch_size, cutoff, **options)
        self.n_new, self.n_old = len(frames.new), n_old
        self._all_old = len(frames.old)

    def __len__(self) -> int:
        return -(-(self.n_new + self.n_old) // self.batch_size)

    def order(self, epoch: int) -> np.ndarray:
        """Frames of an epoch in their order, (n_new + n_old,)."""
        rng = np.random.default_rng([self.seed, epoch])
        # Every old frame comes before any comes again.
        rounds = [rng.permutation(self._all_old) for _ in range(-(-self.n_old // self._all_old))]
        old = self.n_new + np.concatenate(rounds)[: self.n_old]
        return rng.permutation(np.concatenate([np.arange(self.n_new), old]))
