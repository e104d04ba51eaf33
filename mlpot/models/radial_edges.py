"""Distances of edges as the radial networks of all layers see them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import mlx.core as mx
from jaxtyping import Float, Int

from mlpot import kernels
from mlpot.nn import FullyConnectedNet, hidden_together

from .radial_grid import RadialGrid
from .radial_strategy import Strategy


class TableWeights(NamedTuple):
    """Edge weights as combinations of six rows of a table, see `kernels.radial_convolution`.

    Args:
        powers: (n_edges, 6).
        table: (n_rows, n_weights).
        rows: (n_edges,) int32, the first row of each edge.
        fixed: whether the table is made of parameters that are not differentiated.
    """

    powers: Float[mx.array, "n_edges 6"]
    table: Float[mx.array, "n_rows n_weights"]
    rows: Int[mx.array, " n_edges"]
    fixed: bool = False


@dataclass(frozen=True, eq=False)
class RadialEmbedding:
    """Inputs of radial networks as functions of the distance and of the kind of edge.

    Args:
        functions: lengths (n,), Angstrom, to (n, n_functions).
        cutoff: Angstrom; edge weights from there on are zero or do not count.
        breakpoints: distances where a derivative of the functions jumps.
        features: (n_kinds, n_features) further inputs that each kind of edge has; None: one kind.
        parameters: gives the trained numbers in ``functions``.
    """

    functions: Callable[[mx.array], mx.array]
    cutoff: float
    breakpoints: tuple[float, ...] = ()
    features: kernels.Constant | None = None
    parameters: Callable[[], Sequence[mx.array]] = tuple

    @property
    def n_kinds(self) -> int:
        """Kinds of edges."""
        return 1 if self.features is None else self.features.shape[0]

    def grid(self, n_intervals: int) -> RadialGrid:
        """Knots for these functions."""
        return RadialGrid(self.cutoff, n_intervals, self.breakpoints)

    def on_edges(self, length: mx.array, kinds: mx.array | None) -> Float[mx.array, "n_edges n_in"]:
        """Inputs for each edge."""
        values = self.functions(length)
        if self.features is None:
            return values
        assert kinds is not None
        own = mx.take(self.features(values.dtype), kinds, axis=0)
        return mx.concatenate([values, own], axis=1)

    def for_every_kind(self, length: mx.array) -> Float[mx.array, "n_rows n_in"]:
        """Inputs for the same lengths in every kind, kind after kind."""
        values = self.functions(length)
        if self.features is None:
            return values
        features = self.features(values.dtype)
        n, kinds = length.shape[0], self.n_kinds
        own = mx.broadcast_to(features[:, None], (kinds, n, features.shape[1]))
        all_values = mx.broadcast_to(values[None], (kinds, *values.shape))
        return mx.concatenate([all_values, own], axis=2).reshape(kinds * n, -1)


@dataclass(eq=False)
class RadialEdges:
    """The edges of one call: what their weights depend on.

    Args:
        embedding: inputs of the radial networks.
        length: (n_edges,), Angstrom.
        strategy: where weights come from.
        kinds: (n_edges,) int32, kind of each edge where there are several.
        networks: radial networks that are evaluated together when one of them is.
    """

    embedding: RadialEmbedding
    length: Float[mx.array, " n_edges"]
    strategy: Strategy = "auto"
    kinds: Int[mx.array, " n_edges"] | None = None
    networks: Sequence[FullyConnectedNet] = ()
    _scalars: mx.array | None = None
    _hidden: list[mx.array] | None = None
    _located: dict = field(default_factory=dict)

    @property
    def n_edges(self) -> int:
        """Number of edges."""
        return self.length.shape[0]

    def scalars(self) -> Float[mx.array, "n_edges n_in"]:
        """Inputs of the radial networks at each edge."""
        if self._scalars is None:
            self._scalars = self.embedding.on_edges(self.length, self.kinds)
        return self._scalars

    def exact(self, network: FullyConnectedNet) -> Float[mx.array, "n_edges n_weights"]:
        """What a network makes of the edges."""
        places = [k for k, one in enumerate(self.networks) if one is network]
        if not places:
            return network(self.scalars())
        if self._hidden is None:
            self._hidden = hidden_together(self.networks, self.scalars())
        return self._hidden[places[0]] @ network.last_matrix()

    def located(self, grid: RadialGrid) -> tuple[mx.array, mx.array]:
        """First row of the table (n_edges,) int32 and powers (n_edges, 6) of each edge."""
        if grid.n_intervals not in self._located:
            self._located[grid.n_intervals] = grid.locate(self.length, self.kinds)
        return self._located[grid.n_intervals]
