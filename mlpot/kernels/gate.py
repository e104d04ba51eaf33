"""Gates as one primitive: activated scalars, and blocks multiplied by activated scalars.

    F(x)[s_out] = c f(x[s])            F(x)[v_out] = c f(x[s]) x[v]          (see `GateSpec`)

For a pair of columns (s, v) the derivative in k directions is (see `RowMap`)

    D^k F[v_out] = c f^(k)(x_s) x_v prod_i a_i,s + c f^(k-1)(x_s) sum_i a_i,v prod_(l != i) a_l,s.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import mlx.core as mx
from jaxtyping import Float

from . import dispatch, elementary, gpu, native
from .gate_spec import GateGroup, GateSpec
from .row_map import RowMap

#: Highest k of the maps that have kernels.
LARGEST_ORDER = gpu.LARGEST_ORDER


def gate(spec: GateSpec, x: Float[mx.array, "n dim_x"]) -> Float[mx.array, "n dim_out"]:
    """F(x), with every derivative.

    Args:
        spec: what is activated and multiplied.
        x: (n, dim_x).

    Returns:
        (n, dim_out).

    Raises:
        ValueError: x does not have the width that the specification names.
    """
    if x.ndim != 2 or x.shape[1] != spec.dim_x:
        raise ValueError(f"x has the shape {tuple(x.shape)}, the gate needs (n, {spec.dim_x})")
    if x.size == 0 or spec.dim_out == 0:
        return mx.zeros((x.shape[0], spec.dim_out), dtype=x.dtype)
    if "map" not in spec.caches:

        def values(kind: str):
            return lambda order, arrays, _index: _values(spec, kind, order, arrays)

        spec.caches["map"] = RowMap(values("out"), values("adjoint"), LARGEST_ORDER)
    return spec.caches["map"](x)


def _f(function: str | None, order: int, s: mx.array) -> mx.array:
    """The derivative of a function of a group."""
    if function is not None:
        return elementary.activation_derivative(function, order)(s)
    return s if order == 0 else mx.full(s.shape, float(order == 1), dtype=s.dtype)


def _columns(array: mx.array, start: int, n: int) -> mx.array:
    return array[:, start : start + n]


def _products(g: GateGroup, order: int, x: mx.array, a: Sequence[mx.array]):
    """c f^(order) prod a_s, and c f^(order-1) prod_(l != i) a_l,s for each i."""
    at = [_columns(one, g.scalar, g.n) for one in a]
    s = _columns(x, g.scalar, g.n)
    high = math.prod(at, start=g.constant * _f(g.function, order, s))
    if not a or not g.vectors:
        return high, []
    low = g.constant * _f(g.function, order - 1, s)
    return high, [math.prod(at[:i] + at[i + 1 :], start=low) for i in range(len(a))]


def _reference_out(spec: GateSpec, x: mx.array, a: Sequence[mx.array]) -> mx.array:
    blocks: dict[int, Any] = {}
    for g in spec.groups:
        high, low = _products(g, len(a), x, a)
        if g.scalar_out is not None:
            blocks[g.scalar_out] = high
        for i, o in g.vectors:
            value = high * _columns(x, i, g.n)
            for one, factor in zip(a, low, strict=True):
                value = value + factor * _columns(one, i, g.n)
            blocks[o] = value
    return _joined(blocks)


def _reference_adjoint(
    spec: GateSpec, x: mx.array, cotangent: mx.array, a: Sequence[mx.array]
) -> mx.array:
    order, blocks = len(a) + 1, {}
    for g in spec.groups:
        high, low = _products(g, order, x, a)
        total: Any = 0.0 if g.vectors else mx.zeros((x.shape[0], g.n), dtype=x.dtype)
        if g.scalar_out is not None:
            total = high * _columns(cotangent, g.scalar_out, g.n)
        if g.vectors:
            s = _columns(x, g.scalar, g.n)
            at = [_columns(one, g.scalar, g.n) for one in a]
            own = math.prod(at, start=g.constant * _f(g.function, order - 1, s))
            for i, o in g.vectors:
                c = _columns(cotangent, o, g.n)
                blocks[i] = c * own
                value = high * _columns(x, i, g.n)
                for one, factor in zip(a, low, strict=True):
                    value = value + factor * _columns(one, i, g.n)
                total = total + c * value
        blocks[g.scalar] = total
    return _joined(blocks)


def _joined(blocks: dict[int, Any]) -> mx.array:
    return mx.concatenate([block for _, block in sorted(blocks.items()) if block.size], axis=1)


def _plain(spec: GateSpec, kind: str, arrays: Sequence[mx.array]) -> mx.array:
    """The maps in plain MLX; differentiable."""
    if kind == "out":
        return _reference_out(spec, arrays[0], arrays[1:])
    return _reference_adjoint(spec, arrays[0], arrays[1], arrays[2:])


def _values(spec: GateSpec, kind: str, order: int, arrays: Sequence[mx.array]) -> mx.array:
    """out_order or adjoint_order from the backend that takes it."""
    if order > LARGEST_ORDER:
        return _plain(spec, kind, arrays)  # beyond the rules
    offers: tuple[tuple[str, dispatch.Check], ...] = (
        *gpu.offers(lambda: gpu.gate_refusal(spec, order, arrays)),
        ("native", lambda: native.refusal(*arrays)),
    )
    backend = dispatch.choose(f"gate.{kind}{order}", offers)
    if backend == "native":
        return native.gate(spec, kind, order, arrays)
    if backend in gpu.DIALECTS:
        return gpu.gate(spec, kind, order, arrays)
    return _plain(spec, kind, arrays)
