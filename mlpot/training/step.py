"""One optimiser step, one lazy graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import mlx.core as mx
import mlx.nn
import mlx.optimizers
from jaxtyping import Float

from mlpot import derivatives
from mlpot.graph import Graph

from .objective import COUNT, Objective
from .parallel import Ranks
from .state import TrainState

if TYPE_CHECKING:
    from mlpot.datasets import Labels


class StepResult(NamedTuple):
    """What a step reports, lazily.

    Args:
        loss: (), of the batch before the step.
        gradient_norm: (), before clipping.
        sums: (3, 4), see `Objective.sums`.
    """

    loss: Float[mx.array, ""]
    gradient_norm: Float[mx.array, ""]
    sums: Float[mx.array, "3 4"]


class TrainStep:
    """Forces, loss, its gradient, clipping, optimiser and running average.

    Nothing is evaluated here: the caller evaluates the result together with the state, once.

    Args:
        state: what is changed.
        objective: the loss.
        stress: whether stresses are computed.
        clip_grad: largest norm of the gradient, None for no limit.
        ranks: processes that have a part of each batch.
    """

    def __init__(
        self,
        state: TrainState,
        objective: Objective,
        stress: bool,
        clip_grad: float | None,
        ranks: Ranks | None = None,
    ) -> None:
        self.state, self.objective, self.ranks = state, objective, ranks or Ranks()
        self.stress, self.clip_grad = stress, clip_grad
        self._gradient = mlx.nn.value_and_grad(state.potential, self._loss)

    def _loss(self, graph: Graph, labels: Labels, ranks: Ranks) -> tuple[mx.array, mx.array]:
        """This process's part of the loss: errors of its part, divided by the labels of all."""
        sums = self.sums(graph, labels)
        if ranks.size == 1:
            return self.objective.loss(sums), sums
        # How many labels there are depends on no parameter: nothing is to be differentiated.
        counts = ranks.sum(mx.stop_gradient(sums[:, COUNT]))
        return self.objective.loss(sums, counts), sums

    def sums(self, graph: Graph, labels: Labels) -> Float[mx.array, "3 4"]:
        """Sums of errors of a batch with the potential's present parameters, lazily."""
        result = derivatives.energy_forces_stress(self.state.potential, graph, stress=self.stress)
        return self.objective.sums(result, labels)

    def gradient(
        self, graph: Graph, labels: Labels, ranks: Ranks | None = None
    ) -> tuple[StepResult, dict]:
        """Loss and gradient of a batch, lazily; the gradient is clipped.

        Args:
            graph: batch of structures, or this process's part of it.
            labels: theirs.
            ranks: processes that have the other parts; None if there are none.
        """
        ranks = ranks or Ranks()
        (loss, sums), gradient = self._gradient(graph, labels, ranks)
        if ranks.size > 1:
            gradient, sums = ranks.sum_tree([gradient, sums])
            loss = self.objective.loss(sums)
        limit = float("inf") if self.clip_grad is None else self.clip_grad
        gradient, norm = mlx.optimizers.clip_grad_norm(gradient, limit)
        return StepResult(loss, norm, sums), gradient

    def __call__(self, graph: Graph, labels: Labels, rate: mx.array, decay: mx.array) -> StepResult:
        """Move the state by one step, lazily.

        Args:
            graph: batch of structures.
            labels: theirs.
            rate: (), learning rate.
            decay: (), of the running average.
        """
        result, gradient = self.gradient(graph, labels, self.ranks)
        self.state.optimizer.state["learning_rate"] = rate
        self.state.optimizer.update(self.state.potential, gradient)
        if self.state.average is not None:
            self.state.average.update(self.state.potential.trainable_parameters(), decay)
        return result
