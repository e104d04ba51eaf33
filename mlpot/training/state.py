"""Everything that a step changes: parameters, optimiser, running average."""

from __future__ import annotations

from typing import TYPE_CHECKING

import mlx.core as mx
import mlx.optimizers
from mlx.utils import tree_flatten, tree_map_with_path

from .average import RunningAverage
from .config import TrainConfig

if TYPE_CHECKING:
    from mlpot.models import Potential


def make_optimizer(config: TrainConfig) -> mlx.optimizers.Optimizer:
    """The optimiser of a configuration; its learning rate is set at each step."""
    section = config.optimizer
    options = {
        "learning_rate": config.lr,
        "betas": [section.beta1, section.beta2],
        "eps": section.eps,
        "bias_correction": True,
    }
    if section.name == "adamw":
        return mlx.optimizers.AdamW(weight_decay=section.weight_decay, **options)
    return mlx.optimizers.Adam(**options)


class TrainState:
    """Parameters, optimiser state and running average as one flat set of named arrays.

    Args:
        potential: model, changed by training.
        config: of the run.
    """

    def __init__(self, potential: Potential, config: TrainConfig) -> None:
        self.potential = potential
        self.optimizer = make_optimizer(config)
        self.optimizer.init(potential.trainable_parameters())
        self.average: RunningAverage | None = None
        if config.ema_decay is not None:
            self.average = RunningAverage(potential.trainable_parameters())

    def trees(self) -> dict[str, dict]:
        """The containers that hold the state and are updated in place."""
        trees: dict[str, dict] = {
            "model": self.potential.parameters(),
            "optimizer": self.optimizer.state,
        }
        if self.average is not None:
            trees["average"] = self.average.state["parameters"]
        return trees

    def arrays(self) -> dict[str, mx.array]:
        """All arrays by name; keeping the result keeps this moment, as arrays never change."""
        return dict(tree_flatten(self.trees()))

    def load(self, arrays: dict[str, mx.array]) -> None:
        """Return to a moment.

        Args:
            arrays: from `arrays`.

        Raises:
            ValueError: other names, shapes or precisions than this state has.
        """
        _compare(self.arrays(), arrays)
        trees = tree_map_with_path(lambda name, _: arrays[name], self.trees())
        self.potential.update(trees["model"])
        self.optimizer.state.update(trees["optimizer"])
        if self.average is not None:
            self.average.state["parameters"] = trees["average"]

    def best_parameters(self) -> dict:
        """The parameters to use: averaged ones where there is an average."""
        if self.average is None:
            return self.potential.trainable_parameters()
        return self.average.state["parameters"]


class averaged:  # noqa: N801, used like a function
    """``with averaged(state):`` the potential has the parameters to use, afterwards its own.

    Args:
        state: of training.
    """

    def __init__(self, state: TrainState) -> None:
        self.state = state

    def __enter__(self) -> None:
        self.own = self.state.potential.trainable_parameters()
        self.state.potential.update(self.state.best_parameters())

    def __exit__(self, *_) -> None:
        self.state.potential.update(self.own)


def _compare(own: dict[str, mx.array], given: dict[str, mx.array]) -> None:
    missing, extra = sorted(own.keys() - given.keys()), sorted(given.keys() - own.keys())
    if missing or extra:
        raise ValueError(
            "the checkpoint does not fit the configuration: "
            f"missing {missing[:3] or 'nothing'}, not wanted {extra[:3] or 'nothing'}"
        )
    for name, array in own.items():
        other = given[name]
        if other.shape != array.shape or other.dtype != array.dtype:
            raise ValueError(
                f"the checkpoint does not fit the configuration: {name} is {other.shape} "
                f"{other.dtype}, expected {array.shape} {array.dtype}"
            )
