"""One optimiser step, one lazy graph."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import mlx.core as mx
from jaxtyping import Float
from mlx.utils import tree_map

from mlpot import derivatives
from mlpot.datasets import Labels
from mlpot.graph import Graph
from mlpot.models.radial_layers import radial_layers

from .objective import Objective
from .parallel import Ranks
from .records import Records
from .state import Arrays, TrainState

Part = tuple[Graph, Labels]


class Gradient(NamedTuple):
    """The loss of a batch and its derivatives, lazily.

    Args:
        loss: ().
        sums: (4, 4), see `Objective.sums`.
        slopes: of the loss, by the names of the trained parameters.
    """

    loss: Float[mx.array, ""]
    sums: Float[mx.array, "4 4"]
    slopes: Arrays


class StepResult(NamedTuple):
    """What a step reports, lazily.

    Args:
        loss: (), of the batch before the step.
        gradient_norm: (), before clipping.
        sums: (4, 4), see `Objective.sums`.
    """

    loss: Float[mx.array, ""]
    gradient_norm: Float[mx.array, ""]
    sums: Float[mx.array, "4 4"]


class TrainStep:
    """Forces, loss, its gradient, clipping, optimiser and running average.

    Nothing is evaluated here: the caller evaluates the result together with the state, once.

    Args:
        state: what is changed.
        objective: the loss.
        stress: whether stresses are computed.
        hvps: whether Hessian-vector products are computed.
        clip_grad: largest norm of the gradient, None for no limit.
        ranks: processes that have other parts of each batch.
        record: whether operations are recorded for sizes of batches that come again, instead of
            being built by Python in each step. The bits are the same.
    """

    def __init__(
        self,
        state: TrainState,
        objective: Objective,
        stress: bool,
        clip_grad: float | None,
        ranks: Ranks | None = None,
        record: bool = False,
        hvps: bool = False,
    ) -> None:
        self.state, self.objective, self.ranks = state, objective, ranks or Ranks()
        self.stress, self.hvps, self.clip_grad = stress, hvps, clip_grad
        # Looked up once: walking through the network in every step takes half a millisecond.
        self._tables = [layer.radial_table for layer in radial_layers(state.potential.network)]
        self._slopes = Records(self._slopes_of, record)
        self._sums = Records(self._sums_of, record)
        self._moves = Records(self._moved, record)

    @property
    def n_traces(self) -> int:
        """How often Python has built operations for a batch, in training or validation."""
        return self._slopes.n_traces + self._sums.n_traces

    def sums(self, graph: Graph, labels: Labels) -> Float[mx.array, "4 4"]:
        """Sums of errors of a batch with the parameters that the potential has, lazily."""
        weights = self.state.weights.read()
        found = self._sums(weights, graph.arrays(), labels.arrays(), context=self._context())
        return found["sums"]

    def gradient(self, parts: Sequence[Part], ranks: Ranks | None = None) -> Gradient:
        """Loss of a batch, its gradient and sums of errors, lazily.

        The labels of all parts are counted together, so what comes out is that of one batch.

        Args:
            parts: of the batch, computed one after another; those of this process.
            ranks: processes that have other parts; None if there are none.
        """
        ranks, (first, *others) = ranks or Ranks(), parts
        counts = self.objective.counts(first[1])
        for _, labels in others:
            counts = counts + self.objective.counts(labels)
        weights = self.objective.weights_array(counts.dtype)
        scales = {"counts": ranks.sum(counts), "weights": weights}
        arrays = self.state.of_model(self.state.arrays)
        found: Any = None
        for graph, labels in parts:
            atoms = graph.arrays()
            if found is not None:
                # A part waits for the one before, so that memory holds one at a time.
                done = [found["loss"], *found["gradient"].values()]
                (atoms["positions"],) = mx.depends([atoms["positions"]], done)
            part = self._slopes(arrays, atoms, labels.arrays(), scales, context=self._context())
            found = part if found is None else tree_map(mx.add, found, part)
        names = list(found["gradient"])
        loss, sums, *slopes = ranks.sum_tree(
            [found["loss"], found["sums"], *(found["gradient"][name] for name in names)]
        )
        return Gradient(loss, sums, dict(zip(names, slopes, strict=True)))

    def __call__(self, parts: Sequence[Part], rate: mx.array, decay: mx.array) -> StepResult:
        """Move the state by one step, lazily.

        Args:
            parts: of the batch, those of this process.
            rate: (), learning rate.
            decay: (), of the running average.
        """
        loss, sums, gradient = self.gradient(parts, self.ranks)
        found = self._moves(self.state.arrays, gradient, {"rate": rate, "decay": decay})
        self.state.arrays = found["state"]
        return StepResult(loss, found["norm"], sums)

    def _context(self) -> Any:
        """What a record depends on beside its arrays."""
        return tuple(table.intervals for table in self._tables)

    def _slopes_of(self, arrays: Arrays, graph: Arrays, labels: Arrays, scales: Arrays) -> dict:
        state = self.state

        def loss(trained: Arrays) -> tuple[mx.array, mx.array]:
            with state.weights.replaced(state.plain(arrays, trained)):
                said = self._said(graph, labels)
                return self.objective.loss_and_sums(*said, scales["counts"], scales["weights"])

        (value, sums), gradient = mx.value_and_grad(loss)(state.trained(arrays))
        return {"loss": value, "sums": sums, "gradient": gradient}

    def _sums_of(self, weights: Arrays, graph: Arrays, labels: Arrays) -> dict:
        with self.state.weights.replaced(weights):
            said = self._said(graph, labels)
            nothing = mx.zeros((4,), dtype=said[1].energy.dtype)
            return {"sums": self.objective.loss_and_sums(*said, nothing, nothing)[1]}

    def _said(
        self, graph: Arrays, labels: Arrays
    ) -> tuple[derivatives.Results, Labels, mx.array | None]:
        """What the model says, what is known, and Hessian-vector products if wanted."""
        potential, atoms = self.state.potential, Graph.from_arrays(graph)
        known = Labels.from_arrays(labels)
        result = derivatives.energy_forces_stress(potential, atoms, stress=self.stress)
        # Structures do not act on each other: one product has each frame's with its own vector.
        hvps = derivatives.hvp(potential, atoms, known.hvp_vectors) if self.hvps else None
        return result, known, hvps

    def _moved(self, arrays: Arrays, gradient: Arrays, numbers: Arrays) -> dict:
        limit = math.inf if self.clip_grad is None else self.clip_grad
        state, norm = self.state.moved(arrays, gradient, numbers["rate"], numbers["decay"], limit)
        return {"state": state, "norm": norm}
