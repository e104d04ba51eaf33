"""Everything that a step changes: parameters, optimiser, running average."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import mlx.optimizers
from mlx.utils import tree_flatten

from .adapters import Adapters
from .average import mixed
from .config import TrainConfig
from .matrices import matrices
from .muon import BlockMuon
from .optimizers import Adam, AdamW, make_optimizer
from .selection import chosen
from .weights import Weights

if TYPE_CHECKING:
    from mlpot.models import Potential

Arrays = dict[str, mx.array]

_MODEL, _ADAPTER, _OPTIMIZER, _AVERAGE = "model.", "adapter.", "optimizer.", "average."


class TrainState:
    """Parameters, optimiser state and running average as one flat set of named arrays.

    Names are ``model.NAME`` for parameters, ``adapter.NAME.a`` and ``.b`` for what is trained in
    their place, ``optimizer.NAME.SLOT``, ``optimizer.step`` and ``average.NAME``. The arrays here
    count; the potential has them, adapters added, after `put`.

    Args:
        potential: model, changed by training.
        config: of the run.

    Raises:
        ValueError: a pattern of names matches no parameter, or nothing is left to train.

    Attributes:
        arrays: the state. Never changed but replaced, so that keeping it keeps this moment.
    """

    def __init__(self, potential: Potential, config: TrainConfig) -> None:
        self.potential = potential
        self.weights = Weights(potential)
        blocks = matrices(potential)
        self.optimizer = make_optimizer(config.optimizer, config.lr, blocks)
        own = self.weights.read()
        self.arrays: Arrays = _prefixed(_MODEL, own)
        names = self.weights.names
        frozen = set(chosen(names, config.freeze, "freeze"))
        self._names = [name for name in names if name not in frozen]
        self._prefix, self.adapters = _MODEL, None
        if config.adapters is not None:
            wanted = chosen(names, config.adapters.weights, "adapters.weights")
            kept = {name: blocks[name] for name in wanted if name in blocks and name not in frozen}
            self._prefix, self.adapters = _ADAPTER, Adapters(kept, config.adapters.rank)
            self.arrays |= _prefixed(_ADAPTER, self.adapters.start(own))
            self._names = [name[len(_ADAPTER) :] for name in self.arrays if _ADAPTER in name]
        if not self._names:
            raise ValueError("freeze and adapters leave no parameter to train")
        trained = self.trained(self.arrays)
        self.optimizer.init(trained)
        flat: Any = tree_flatten(self.optimizer.state)
        self.arrays |= _prefixed(_OPTIMIZER, dict(flat))
        # Schedule-free optimisation has an average of its own.
        self.own_average = config.optimizer.name == "schedule_free"
        self.averages = config.ema_decay is not None and not self.own_average
        if self.averages:
            self.arrays |= _prefixed(_AVERAGE, trained)

    def describe(self) -> str:
        """How many numbers are trained, in words."""
        trained = sum(array.size for array in self.trained(self.arrays).values())
        fixed = sum(array.size for name, array in self.arrays.items() if name.startswith(_MODEL))
        if self.adapters is None:
            return f"trained: {trained} of {fixed} parameters"
        return f"trained: {trained} parameters of adapters beside {fixed} fixed ones"

    def of_model(self, arrays: Mapping[str, mx.array]) -> Arrays:
        """The part of a state that the model's output depends on."""
        return {n: array for n, array in arrays.items() if n.startswith((_MODEL, _ADAPTER))}

    def trained(self, arrays: Mapping[str, mx.array]) -> Arrays:
        """The parameters that are moved, by name, as they are in some state."""
        return {name: arrays[self._prefix + name] for name in self._names}

    def plain(self, arrays: Mapping[str, mx.array], trained: Arrays) -> Arrays:
        """The parameters of the model for other trained ones than a state has.

        Args:
            arrays: of the model, see `of_model`.
            trained: by the names of `trained`.
        """
        weights = _without(_MODEL, arrays)
        return weights | (
            trained if self.adapters is None else self.adapters.merged(weights, trained)
        )

    def moved(
        self,
        arrays: Mapping[str, mx.array],
        gradient: Arrays,
        rate: mx.array,
        decay: mx.array,
        limit: float = math.inf,
    ) -> tuple[Arrays, mx.array]:
        """The state after a step of the optimiser, lazily; a pure function.

        Args:
            arrays: a state.
            gradient: by the names of `trained`.
            rate: (), learning rate.
            decay: (), of the running average.
            limit: largest norm of the gradient, which is scaled down to it.

        Returns:
            The state, and the norm of the gradient before that, ().
        """
        optimizer, trained = self.optimizer, self.trained(arrays)
        optimizer.state = _grouped(_without(_OPTIMIZER, arrays))
        optimizer.state["learning_rate"] = rate
        average = _without(_AVERAGE, arrays)
        if isinstance(optimizer, Adam | AdamW | BlockMuon) and optimizer.has_kernels(
            gradient, trained
        ):
            parameters, average, norm = optimizer.by_kernels(
                gradient, trained, average, decay, limit
            )
        else:
            gradient, norm = mlx.optimizers.clip_grad_norm(gradient, limit)
            parameters = optimizer.apply_gradients(gradient, trained)
            average = mixed(average, parameters, decay)
        flat: Any = tree_flatten(optimizer.state)
        new = dict(arrays) | _prefixed(self._prefix, parameters)
        new |= _prefixed(_OPTIMIZER, dict(flat))
        new |= _prefixed(_AVERAGE, average)
        return new, norm

    def load(self, arrays: Mapping[str, mx.array]) -> None:
        """Return to a moment.

        Args:
            arrays: all of a state.

        Raises:
            ValueError: other names, shapes or precisions than this state has.
        """
        _compare(self.arrays, arrays)
        self.arrays = dict(arrays)
        self.put()

    def put(self) -> None:
        """Give the potential the parameters of this state."""
        self._write(self.trained(self.arrays))

    def _write(self, trained: Arrays) -> None:
        weights = self.plain(self.of_model(self.arrays), trained)
        # What is kept for parameters that have numbers is not kept for operations.
        mx.eval(weights)
        self.weights.write(weights)

    def put_best(self) -> None:
        """Give the potential the parameters to use: averaged ones where there is an average."""
        trained = self.trained(self.arrays)
        if self.own_average:
            trained = {name: self.arrays[f"{_OPTIMIZER}{name}.x"] for name in trained}
        elif self.averages:
            trained = _without(_AVERAGE, self.arrays)
        self._write(trained)


class averaged:  # noqa: N801, used like a function
    """``with averaged(state):`` the potential has the parameters to use, afterwards its own.

    Args:
        state: of training.
    """

    def __init__(self, state: TrainState) -> None:
        self.state = state

    def __enter__(self) -> None:
        self.state.put_best()

    def __exit__(self, *_) -> None:
        self.state.put()


def _prefixed(prefix: str, arrays: Mapping[str, mx.array]) -> Arrays:
    return {prefix + name: array for name, array in arrays.items()}


def _without(prefix: str, arrays: Mapping[str, mx.array]) -> Arrays:
    """Arrays whose names begin so, without that beginning."""
    n = len(prefix)
    return {name[n:]: array for name, array in arrays.items() if name.startswith(prefix)}


def _grouped(arrays: Mapping[str, mx.array]) -> dict[str, Any]:
    """``NAME.SLOT`` as a mapping of slots for each name; what has no dot stays as it is."""
    grouped: dict[str, Any] = {}
    for full, array in arrays.items():
        name, _, slot = full.rpartition(".")
        if name:
            grouped.setdefault(name, {})[slot] = array
        else:
            grouped[slot] = array
    return grouped


def _compare(own: Mapping[str, mx.array], given: Mapping[str, mx.array]) -> None:
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
