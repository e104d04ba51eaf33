"""Interval powers by the compiled module: values only, lazily evaluated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from ..interval_spec import IntervalSpec
from .values import native_module


def _plan(spec: IntervalSpec) -> Any:
    if "native" not in spec.caches:
        spec.caches["native"] = native_module().IntervalPlan(
            float(spec.cutoff),
            [float(s) for s in spec.starts],
            [float(s) for s in spec.inverse_steps()],
            [int(n) for n in spec.first_intervals()],
            [float(x) for x in spec.left],
            [float(1.0 / x) for x in spec.widths],
        )
    return spec.caches["native"]


def locate(spec: IntervalSpec, length: mx.array, kinds: Sequence[mx.array]) -> mx.array:
    """First row of each distance, see `mlpot.kernels.interval_powers.locate`."""
    return native_module().locate(_plan(spec), [length, *(k.astype(mx.int32) for k in kinds)])


def interval_powers(
    spec: IntervalSpec, kind: str, order: int, arrays: Sequence[mx.array], rows: mx.array
) -> mx.array:
    """A map of the powers, see `mlpot.kernels.interval_powers`.

    Args:
        spec: the grid.
        kind: "out" or "adjoint".
        order: of the derivative, at most 3.
        arrays: distances (n,), for an adjoint g (n, 6), and the directions (n,), all float32 or
            all float64.
        rows: (n,) int32.
    """
    adjoint = kind == "adjoint"
    return native_module().interval_powers(_plan(spec), adjoint, order, [*arrays, rows])
