"""The radial network of a layer as a table: how it is made, how fine it is, when it is kept."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
from jaxtyping import Float

from mlpot.nn import FullyConnectedNet

from .parameter_cache import ParameterCache
from .radial_edges import RadialEdges, RadialEmbedding, TableWeights
from .radial_grid import ORDER, RadialGrid
from .radial_strategy import TOLERANCES, takes_table

#: Intervals where nothing is known about the weights.
UNKNOWN = 1024
#: Intervals that are tried first.
FIRST = 256
#: Numbers of intervals that are tried: four in each factor of two, multiples of eight.
LADDER = tuple(8 * round(8 * 2 ** (i / 4)) for i in range(37))


Derivatives = tuple[mx.array, mx.array, mx.array]


def input_derivatives(
    embedding: RadialEmbedding, length: np.ndarray, dtype: mx.Dtype = mx.float64
) -> Derivatives:
    """Inputs of radial networks and their first two derivatives by the distance.

    Args:
        embedding: the inputs.
        length: (n,), Angstrom.
        dtype: of the computation.

    Returns:
        Three arrays (n_kinds n, n_in), differentiable in the embedding's parameters.
    """
    r = mx.array(length, dtype=dtype)
    one = mx.ones_like(r)

    def slope(r: mx.array) -> mx.array:
        return mx.jvp(embedding.for_every_kind, [r], [one])[1][0]

    (first,), (second,) = mx.jvp(slope, [r], [one])
    return embedding.for_every_kind(r), first, second


def hidden_derivatives(
    network: FullyConnectedNet, embedding: RadialEmbedding, inputs: Derivatives
) -> Derivatives:
    """What the last matrix is multiplied with, and its first two derivatives by the distance.

    Args:
        network: radial network.
        embedding: its inputs.
        inputs: their values and derivatives.

    Returns:
        Three arrays (n_kinds, n, width), differentiable in the parameters.
    """
    values, first, second = network.hidden_derivatives(*inputs)
    shape = (embedding.n_kinds, -1, values.shape[1])
    return values.reshape(shape), first.reshape(shape), second.reshape(shape)


class Knots:
    """A grid with the inputs of the radial networks at its knots.

    Args:
        embedding: the inputs.
        n_intervals: number of intervals.
    """

    def __init__(self, embedding: RadialEmbedding, n_intervals: int) -> None:
        self.embedding = embedding
        self.grid = embedding.grid(n_intervals)
        self._fixed: Derivatives | None = None

    def inputs(self, dtype: mx.Dtype) -> Derivatives:
        """Values and derivatives at the knots; computed once where nothing in them is trained."""
        if dtype != mx.float64 or self.embedding.parameters():
            return input_derivatives(self.embedding, self.grid.knots, dtype)
        if self._fixed is None:
            found = input_derivatives(self.embedding, self.grid.knots)
            mx.eval(found)
            self._fixed = found
        return self._fixed

    def __getstate__(self) -> dict:
        return self.__dict__ | {"_fixed": None}


def make_table(
    network: FullyConnectedNet, knots: Knots, traced: bool = False
) -> Float[mx.array, "n_rows n_weights"]:
    """The table of a network, differentiable in the parameters.

    Coefficients are differences of close numbers, so all but the last product is computed in
    float64, on the CPU. Only a trace on a GPU stays in the precision of the network there.

    Args:
        network: radial network.
        knots: where.
        traced: whether parameters are differentiated.

    Returns:
        (6 n_kinds n_intervals, n_weights), in the precision of the network.
    """
    matrix = network.last_matrix()
    on_gpu = mx.default_device().type == mx.DeviceType.gpu
    dtype = matrix.dtype if traced and on_gpu else mx.float64
    with mx.stream(mx.gpu if dtype != mx.float64 and on_gpu else mx.cpu):
        at_knots = hidden_derivatives(network, knots.embedding, knots.inputs(dtype))
        rows = knots.grid.coefficients(*at_knots)
        rows = rows.reshape(-1, rows.shape[-1]).astype(matrix.dtype)
    return rows @ matrix


def interpolation_errors(
    network: FullyConnectedNet, embedding: RadialEmbedding, grid: RadialGrid
) -> tuple[float, float, float]:
    """How far value, slope and curvature of interpolated weights are off.

    Each is taken where the error between two knots is largest (the error is t^3 (1-t)^3 to leading
    order: in the middle, at a quarter, in the middle), on all intervals and weights, relative to
    the largest weight, slope or curvature.

    Args:
        network: radial network with numbers.
        embedding: its inputs.
        grid: knots.
    """
    with mx.stream(mx.cpu):
        matrix = network.last_matrix().astype(mx.float64)
        at_knots = hidden_derivatives(network, embedding, input_derivatives(embedding, grid.knots))
        rows = grid.coefficients(*at_knots)
        found = []
        for order, t in enumerate((0.5, 0.25, 0.5)):
            r = grid.left + t * grid.widths
            exact = hidden_derivatives(network, embedding, input_derivatives(embedding, r))[order]
            factors = [_falling(m, order) * t ** max(m - order, 0) for m in range(ORDER)]
            factor = mx.array(np.array(factors)[:, None], dtype=mx.float64)
            scale = mx.array(grid.widths[:, None] ** -order, dtype=mx.float64)
            error = mx.abs(((rows * factor).sum(axis=-2) * scale - exact) @ matrix).max()
            largest = mx.abs(at_knots[order] @ matrix).max()
            found.append(error / mx.maximum(largest, 1e-300))
        value, slope, curvature = (float(np.array(e)) for e in found)
    return value, slope, curvature


def _falling(m: int, order: int) -> int:
    """m (m-1) ... of ``order`` factors: what differentiation puts before t^(m - order)."""
    return int(np.prod([m - k for k in range(order)])) if order else 1


def needed_intervals(
    network: FullyConnectedNet, embedding: RadialEmbedding, present: int | None = None
) -> int:
    """Intervals with which the interpolated weights are within `TOLERANCES`.

    Args:
        network: radial network with numbers.
        embedding: its inputs.
        present: number that is kept if it suffices; 0 and None are not.

    Returns:
        A number of `LADDER` or the present one; 0 where even the largest does not suffice.
    """

    def factor(n: int) -> float:
        """Times so many intervals would do, as errors fall with the sixth to fourth power."""
        errors = interpolation_errors(network, embedding, embedding.grid(n))
        ratios = [e / t for e, t in zip(errors, TOLERANCES, strict=True)]
        if not np.all(np.isfinite(ratios)):
            return np.inf
        return max(ratio ** (1 / power) for ratio, power in zip(ratios, (6, 5, 4), strict=True))

    def rung(n: float) -> int:
        return int(np.searchsorted(LADDER, n * (1 - 1e-9)))

    n = present or FIRST
    times = factor(n)
    if present and times <= 1:
        return present
    high = rung(n * times)
    while high < len(LADDER) and (times := factor(LADDER[high])) > 1:
        high = max(high + 1, rung(LADDER[high] * times))
    if high >= len(LADDER):
        return 0
    # It suffices; errors fall faster than their powers say where knots are far apart, so that
    # fewer may do.
    low = -1
    while (guess := max(rung(LADDER[high] * times), low + 1)) < high:
        fewer = factor(LADDER[guess])
        if fewer <= 1:
            high, times = guess, fewer
        else:
            low = guess
    return LADDER[high]


class RadialTable:
    """Edge weights of one layer, from its radial network or from the table of it.

    While parameters have numbers the table is computed once and kept until they change. While they
    are traced (the gradient of a loss) it is part of the trace.

    Attributes:
        intervals: number of intervals while parameters are traced; where they have numbers it is
            kept if it suffices. None: not known yet. 0: no table would do.
    """

    def __init__(self) -> None:
        self.intervals: int | None = None
        self._needed = ParameterCache()
        self._kept = ParameterCache()
        self._knots: dict[int, Knots] = {}

    def needed(self, network: FullyConnectedNet, embedding: RadialEmbedding) -> int:
        """How many intervals the present parameters need, which must have numbers."""

        def make(fixed: bool) -> int:
            if not fixed:
                raise ValueError("the parameters are traced: find the number of intervals before")
            return needed_intervals(network, embedding, self.intervals)

        return self._needed.get(_parameters(network, embedding), self.intervals, make)

    def weights(
        self, network: FullyConnectedNet, edges: RadialEdges | mx.array
    ) -> Float[mx.array, "n_edges n_weights"] | TableWeights:
        """Weights of edges.

        Args:
            network: the layer's radial network.
            edges: their distances, or (n_edges, n_in) inputs of the network.
        """
        if not isinstance(edges, RadialEdges):
            return network(edges)
        if edges.n_edges == 0:
            return network(edges.scalars())
        found = None if edges.strategy == "exact" else self._table(network, edges)
        if found is None:
            return edges.exact(network)
        grid, table, fixed = found
        rows, powers = edges.located(grid)
        return TableWeights(powers, table, rows, fixed)

    def _table(
        self, network: FullyConnectedNet, edges: RadialEdges
    ) -> tuple[RadialGrid, mx.array, bool] | None:
        embedding, n_weights = edges.embedding, network.hs[-1]
        dtype = edges.length.dtype

        # Before the cache is asked: what is kept must not depend on the number of edges.
        if not takes_table(edges.strategy, 0, n_weights, edges.n_edges, dtype, traced=False):
            return None

        def takes(n: int, fixed: bool) -> bool:
            n_rows = ORDER * embedding.n_kinds * n
            return n > 0 and takes_table(
                edges.strategy, n_rows, n_weights, edges.n_edges, dtype, not fixed
            )

        def make(fixed: bool) -> tuple[RadialGrid, mx.array, bool] | None:
            if not takes(self.intervals or UNKNOWN, fixed):
                return None
            n = UNKNOWN if self.intervals is None else self.intervals
            if fixed:
                n = self.needed(network, embedding)
            if not takes(n, fixed):
                return None
            knots = self._knots.get(n)
            if knots is None or knots.embedding is not embedding:
                knots = self._knots[n] = Knots(embedding, n)
            table = make_table(network, knots, traced=not fixed)
            if fixed:
                mx.eval(table)
            return knots.grid, table, fixed

        further = (self.intervals, edges.strategy, dtype, mx.default_device().type)
        return self._kept.get(_parameters(network, embedding), further, make)


def _parameters(network: FullyConnectedNet, embedding: RadialEmbedding) -> list[mx.array]:
    matrices = [network[f"layer{i}"].weight for i in range(network.n_layers)]
    return [*matrices, *embedding.parameters()]
