"""Text of the kernels of gates: a thread for each scalar of a row and what it multiplies."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx
from jaxtyping import Float

from ..gate_spec import GateGroup, GateSpec
from .dialect import WORD_OF_TYPE, literal
from .elementary import LARGEST_ORDER, derivative_function
from .generated import GeneratedKernel, grid_refusal
from .refusals import refusal

THREADS = 256


def _value(group: GateGroup, order: int) -> str:
    """Expression of c f^(order)(s)."""
    c = literal(group.constant)
    if group.function is None:
        return {0: f"{c} * s", 1: c}.get(order, literal(0))
    return f"{c} * {group.function}_{order}(s)"


def _sum(terms: Sequence[str]) -> str:
    return " + ".join(terms) if terms else literal(0)


def _group(group: GateGroup, kind: str, order: int, n_directions: int, word: str) -> str:
    """Statements for channel u of a group."""
    directions = range(n_directions)

    def read(array: str, column: int) -> str:
        width = {"x": "dim_x", "g": "dim_out"}.get(array, "dim_x")
        return f"float(LOAD({array}, row * {width} + {column} + u))"

    lines = [f"const float s = {read('x', group.scalar)};"]
    lines += [f"const float s{i} = {read(f'a{i}', group.scalar)};" for i in directions]
    every = "".join(f" * s{i}" for i in directions)
    lines.append(f"const float high = {_value(group, order)}{every};")
    if order and group.vectors:
        lines.append(f"const float low = {_value(group, order - 1)};")
        for i in directions:
            others = "".join(f" * s{j}" for j in directions if j != i)
            lines.append(f"const float low{i} = low{others};")

    def product(i: int) -> str:
        terms = [f"high * {read('x', i)}"]
        terms += [f"low{d} * {read(f'a{d}', i)}" for d in directions]
        return _sum(terms)

    def write(column: int, width: str, value: str) -> str:
        return f"out[row * {width} + {column} + u] = {word}({value});"

    if kind == "out":
        if group.scalar_out is not None:
            lines.append(write(group.scalar_out, "dim_out", "high"))
        lines += [write(o, "dim_out", product(i)) for i, o in group.vectors]
        return "\n".join(lines)
    start = literal(0)
    if group.scalar_out is not None:
        start = f"high * {read('g', group.scalar_out)}"
    lines.append(f"float total = {start};")
    if group.vectors:
        lines.append(f"const float own = low{every};")
    for k, (i, o) in enumerate(group.vectors):
        lines.append(f"const float c{k} = {read('g', o)};")
        lines.append(write(i, "dim_x", f"c{k} * own"))
        lines.append(f"total += c{k} * ({product(i)});")
    lines.append(write(group.scalar, "dim_x", "total"))
    return "\n".join(lines)


def _kernel(spec: GateSpec, kind: str, order: int, dtype: mx.Dtype) -> GeneratedKernel:
    key = ("gpu", kind, order, dtype)
    if key in spec.caches:
        return spec.caches[key]
    n_directions = order if kind == "out" else order - 1
    inputs = ["x", *(["g"] if kind == "adjoint" else []), *(f"a{i}" for i in range(n_directions))]
    choices, first = [], 0
    for group in spec.groups:
        if not group.n:
            continue
        text = _group(group, kind, order, n_directions, WORD_OF_TYPE[dtype])
        choices.append(
            f"if (unit < {first + group.n}) {{ const int u = unit - {first};\n{text}\n}}"
        )
        first += group.n
    orders = {o for o in (order, order - 1) if o >= 0}
    functions = sorted({g.function for g in spec.groups if g.function is not None})
    header = "".join(derivative_function(f, o) for f in functions for o in sorted(orders))
    body = f"""
        const INDEX size = INDEX(x_shape[0]) * {spec.n_units};
        const INDEX at = INDEX(BLOCK_X) * {THREADS} + THREAD_X;
        const int dim_x = {spec.dim_x}, dim_out = {spec.dim_out};
        if (at < size) {{
            const INDEX row = at / {spec.n_units};
            const int unit = int(at % {spec.n_units});
            {" else ".join(choices)}
        }}
    """
    spec.caches[key] = GeneratedKernel(f"gate_{kind}_{order}", inputs, ["out"], body, header)
    return spec.caches[key]


def _blocks(spec: GateSpec, x: mx.array) -> int:
    return -(-x.shape[0] * spec.n_units // THREADS)


def gate_refusal(spec: GateSpec, order: int, arrays: Sequence[mx.array]) -> str | None:
    """Why `gate` cannot take these arguments; None if it can."""
    if order > LARGEST_ORDER:
        return f"derivatives of order {order} (the kernels of gates end at {LARGEST_ORDER})"
    return refusal(*arrays) or grid_refusal(_blocks(spec, arrays[0]), THREADS)


def gate(
    spec: GateSpec, kind: str, order: int, arrays: Sequence[mx.array]
) -> Float[mx.array, "n _"]:
    """A map of a gate, see `mlpot.kernels.gate`.

    Args:
        spec: the gate.
        kind: "out" or "adjoint".
        order: of the derivative, at most ``LARGEST_ORDER``.
        arrays: x, for an adjoint g, and the directions; float32, float16 or bfloat16, computed in
            float32.

    Returns:
        (n, dim_out), or (n, dim_x) for an adjoint.
    """
    x = arrays[0]
    width = spec.dim_out if kind == "out" else spec.dim_x
    (out,) = _kernel(spec, kind, order, x.dtype)(
        list(arrays), [(x.shape[0], width)], [x.dtype], blocks=_blocks(spec, x), threads=THREADS
    )
    return out
