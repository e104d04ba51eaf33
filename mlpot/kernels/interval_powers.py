"""Powers of the place within an interval: what tables of distances are multiplied with.

A distance r < cutoff lies in interval i of a piecewise uniform grid, at t = (r - left_i) / width_i;

    F(r)[m] = t^m,  m = 0 .. 5            (zeros from the cutoff on)

As a function of r it has every derivative (`RowMap`); the interval is a constant for them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import mlx.core as mx
import numpy as np
from jaxtyping import Float, Int

from . import dispatch, gpu, native
from .interval_spec import N_POWERS, IntervalSpec
from .row_map import RowMap

#: Highest derivative that has kernels.
LARGEST_ORDER = gpu.LARGEST_ORDER


def locate(
    spec: IntervalSpec, length: Float[mx.array, " n"], kinds: Int[mx.array, " n"] | None = None
) -> Int[mx.array, " n"]:
    """First row of a table with six rows an interval for each distance; not differentiable.

    Args:
        spec: the grid.
        length: (n,) distances.
        kinds: (n,) int32; the table has all intervals of kind 0, then those of kind 1, ...

    Returns:
        (n,) int32.
    """
    length = mx.stop_gradient(length)
    given = [] if kinds is None else [kinds]
    offers: tuple[tuple[str, dispatch.Check], ...] = (
        *gpu.offers(lambda: gpu.interval_refusal(0, length)),
        ("native", lambda: native.refusal(length)),
    )
    backend = dispatch.choose("interval.locate", offers)
    if backend == "native":
        return native.locate(spec, length, given)
    if backend in gpu.DIALECTS:
        return gpu.locate(spec, length, given)
    return _located(spec, length, kinds)


def interval_powers(
    spec: IntervalSpec, length: Float[mx.array, " n"], rows: Int[mx.array, " n"]
) -> Float[mx.array, "n 6"]:
    """t^0 .. t^5 of each distance in the interval that `locate` gave it, with every derivative.

    Args:
        spec: the grid.
        length: (n,) distances.
        rows: (n,) int32, of `locate`.

    Returns:
        (n, 6); zeros from the cutoff on.

    Raises:
        ValueError: the distances are no list, or there is not one row for each.
    """
    if length.ndim != 1 or rows.shape != length.shape:
        shapes = f"{tuple(length.shape)} and {tuple(rows.shape)}"
        raise ValueError(f"distances and rows have the shapes {shapes}, not both (n,)")
    if "map" not in spec.caches:

        def values(kind: str):
            return lambda order, arrays, index: _values(spec, kind, order, arrays, index[0])

        spec.caches["map"] = RowMap(values("out"), values("adjoint"), LARGEST_ORDER, n_index=1)
    return spec.caches["map"](length, rows)


def _plain(
    spec: IntervalSpec, kind: str, order: int, arrays: Sequence[mx.array], rows: mx.array
) -> mx.array:
    """The maps in plain MLX; differentiable."""
    x, *others = arrays
    if kind == "out":
        values = _powers(spec, order, x, rows)
        for direction in others:
            values = values * direction[:, None]
        return values
    g, *directions = others
    total = mx.sum(g * _powers(spec, order, x, rows), axis=1)
    return math.prod(directions, start=total)


def _values(
    spec: IntervalSpec, kind: str, order: int, arrays: Sequence[mx.array], rows: mx.array
) -> mx.array:
    if order > LARGEST_ORDER:
        return _plain(spec, kind, order, arrays, rows)  # beyond the rules
    offers: tuple[tuple[str, dispatch.Check], ...] = (
        *gpu.offers(lambda: gpu.interval_refusal(order, *arrays)),
        ("native", lambda: native.refusal(*arrays)),
    )
    backend = dispatch.choose(f"interval.{kind}{order}", offers)
    if backend == "native":
        return native.interval_powers(spec, kind, order, arrays, rows)
    if backend in gpu.DIALECTS:
        return gpu.interval_powers(spec, kind, order, arrays, rows)
    return _plain(spec, kind, order, arrays, rows)


def _located(spec: IntervalSpec, length: mx.array, kinds: mx.array | None) -> mx.array:
    dtype = length.dtype
    starts = mx.array(np.array(spec.starts), dtype=dtype)
    steps = mx.array(spec.inverse_steps(), dtype=dtype)
    bounds = mx.array(spec.first_intervals().astype(np.int32))
    piece: mx.array = mx.zeros(length.shape, dtype=mx.int32)
    if len(spec.counts) > 1:
        piece = mx.sum((length[:, None] >= starts[1:]).astype(mx.int32), axis=1)
    offset = mx.minimum(length, spec.cutoff) - mx.take(starts, piece)
    first, end = mx.take(bounds, piece), mx.take(bounds, piece + 1)
    index = mx.floor(offset * mx.take(steps, piece)).astype(mx.int32) + first
    index = mx.clip(index, first, end - 1)
    if kinds is not None:
        index = index + kinds * spec.n_intervals
    return index * N_POWERS


def _powers(spec: IntervalSpec, order: int, length: mx.array, rows: mx.array) -> mx.array:
    """(n, 6) derivatives of the powers by the distance, of operations with every derivative."""
    dtype = length.dtype
    index = (rows // N_POWERS) % spec.n_intervals
    inverse = mx.take(spec.constant("inverse")(dtype), index)
    inside = mx.stop_gradient(length) < spec.cutoff
    t = (length - mx.take(spec.constant("left")(dtype), index)) * inverse
    t = mx.where(inside, t, mx.zeros_like(t))
    one = inside.astype(dtype)
    powers = [one, t]
    for m in range(2, N_POWERS):
        powers.append(powers[m // 2] * powers[m - m // 2])
    scale = one if order == 0 else mx.power(inverse, order)
    columns = [
        math.perm(m, order) * powers[m - order] * scale if m >= order else mx.zeros_like(t)
        for m in range(N_POWERS)
    ]
    return mx.stack(columns, axis=1)
