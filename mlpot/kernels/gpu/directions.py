"""Text of the kernels of lengths and directions: a thread for each vector."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import mlx.core as mx

from .dialect import WORD_OF_TYPE, literal
from .generated import GeneratedKernel, grid_refusal
from .refusals import refusal

THREADS = 256
_AXES = range(3)


def _derivative(names: Sequence[str]) -> str:
    """Statements for d0, d1, d2: the derivative of u along some directions, times r^order."""
    lines = [f"const float p{i} = {_dot('u', a)};" for i, a in enumerate(names)]
    if not names:
        factor, terms = literal(1), []
    elif len(names) == 1:
        factor, terms = "-p0", [(literal(1), names[0])]
    elif len(names) == 2:
        factor = f"{literal(3)} * p0 * p1 - ({_dot(*names)})"
        terms = [("-p1", names[0]), ("-p0", names[1])]
    else:
        pairs = ((1, 2), (0, 2), (0, 1))
        lines += [
            f"const float q{i} = {_dot(names[j], names[k])};" for i, (j, k) in enumerate(pairs)
        ]
        products = " + ".join(f"q{i} * p{i}" for i in range(3))
        factor = f"{literal(3)} * ({products}) - {literal(15)} * p0 * p1 * p2"
        terms = [
            (f"({literal(3)} * p{j} * p{k} - q{i})", names[i]) for i, (j, k) in enumerate(pairs)
        ]
    lines.append(f"const float along = {factor};")
    for axis in _AXES:
        added = "".join(f" + {c} * {name}{axis}" for c, name in terms)
        lines.append(f"const float d{axis} = along * u{axis}{added};")
    return "\n".join(lines)


def _dot(a: str, b: str) -> str:
    return " + ".join(f"{a}{axis} * {b}{axis}" for axis in _AXES)


@cache
def _kernel(kind: str, order: int, dtype: mx.Dtype) -> GeneratedKernel:
    n_directions = order - 1 if kind == "length_adjoint" else order
    names = [f"a{i}_" for i in range(n_directions)]
    inputs = [
        "v",
        *(["g"] if kind == "length_adjoint" else []),
        *(f"a{i}" for i in range(len(names))),
    ]
    word = WORD_OF_TYPE[dtype]
    read = [f"const float v{axis} = float(v[at + {axis}]);" for axis in _AXES]
    read += [
        f"const float a{i}_{axis} = float(a{i}[at + {axis}]);"
        for i in range(len(names))
        for axis in _AXES
    ]
    # What is differentiated along all directions but the last, which it is multiplied with.
    taken = names[:-1] if kind == "length" and names else names
    power = " * inverse" * len(taken)
    if kind == "length" and not names:
        write = f"out[i] = {word}(is_short ? {literal(1e-12)} : squared * inverse);"
        read.append("")
        steps = ""
    elif kind == "length":
        steps = _derivative(taken)
        write = f"out[i] = {word}(({_dot('d', names[-1])}){power});"
    else:
        steps = _derivative(taken)
        factor = " * float(g[i])" if kind == "length_adjoint" else ""
        write = "\n".join(f"out[at + {axis}] = {word}(d{axis}{power}{factor});" for axis in _AXES)
    body = f"""
        const int i = BLOCK_X * {THREADS} + THREAD_X;
        if (i < v_shape[0]) {{
            const INDEX at = INDEX(i) * 3;
            {" ".join(read)}
            const float squared = {_dot("v", "v")};
            const bool is_short = squared < {literal(1e-24)};
            const float root = SQRT(squared);
            const float inverse = is_short ? 0.0f : 1.0f / root;
            const float u0 = v0 * inverse, u1 = v1 * inverse, u2 = v2 * inverse;
            {steps}
            {write}
        }}
    """.replace("squared * inverse", "root")
    return GeneratedKernel(f"{kind}_{order}", inputs, ["out"], body)


def directions_refusal(arrays: Sequence[mx.array]) -> str | None:
    """Why `directions` cannot take these arguments; None if it can."""
    blocks = -(-arrays[0].shape[0] // THREADS)
    return refusal(*arrays) or grid_refusal(blocks, THREADS)


def directions(kind: str, order: int, arrays: Sequence[mx.array]) -> mx.array:
    """A map of vectors, see `mlpot.kernels.directions`.

    Args:
        kind: "direction", "length" or "length_adjoint".
        order: of the derivative, at most 3.
        arrays: v (n, 3), for "length_adjoint" g (n,), and the directions (n, 3).
    """
    n = arrays[0].shape[0]
    shape = (n,) if kind == "length" else (n, 3)
    (out,) = _kernel(kind, order, arrays[0].dtype)(
        list(arrays), [shape], [arrays[0].dtype], blocks=-(-n // THREADS), threads=THREADS
    )
    return out
