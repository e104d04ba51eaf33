"""Gates by the compiled module: values only, lazily evaluated."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx
from jaxtyping import Float

from ..gate_spec import GATE_FUNCTIONS, GateSpec
from .values import native_module


def gate(
    spec: GateSpec, kind: str, order: int, arrays: Sequence[mx.array]
) -> Float[mx.array, "n _"]:
    """A map of a gate, see `mlpot.kernels.gate`.

    Args:
        spec: the gate.
        kind: "out" or "adjoint".
        order: of the derivative, at most 3.
        arrays: x, for an adjoint g, and the directions, all float32 or all float64.

    Returns:
        (n, dim_out), or (n, dim_x) for an adjoint.
    """
    if "native" not in spec.caches:
        integers: list[int] = []
        for g in spec.groups:
            function = 0 if g.function is None else 1 + GATE_FUNCTIONS.index(g.function)
            scalar_out = -1 if g.scalar_out is None else g.scalar_out
            integers += [function, g.n, g.scalar, scalar_out, len(g.vectors)]
            integers += [int(column) for pair in g.vectors for column in pair]
        constants = [float(g.constant) for g in spec.groups]
        spec.caches["native"] = native_module().GatePlan(
            spec.dim_x, spec.dim_out, [int(i) for i in integers], constants
        )
    return native_module().gate(spec.caches["native"], kind == "adjoint", order, list(arrays))
