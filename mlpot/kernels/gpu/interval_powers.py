"""Text of the kernels of interval powers: a thread for each distance."""

from __future__ import annotations

import math
from collections.abc import Sequence

import mlx.core as mx

from ..interval_spec import N_POWERS, IntervalSpec
from .dialect import WORD_OF_TYPE, literal
from .elementary import LARGEST_ORDER
from .generated import GeneratedKernel, grid_refusal
from .refusals import refusal

THREADS = 256


def _table(name: str, values: Sequence[float]) -> str:
    return f"CONSTANT float {name}[{len(values)}] = {{{', '.join(literal(v) for v in values)}}};\n"


def _integers(name: str, values: Sequence[int]) -> str:
    return f"CONSTANT int {name}[{len(values)}] = {{{', '.join(str(int(v)) for v in values)}}};\n"


def _locate_kernel(spec: IntervalSpec, with_kinds: bool) -> GeneratedKernel:
    key = ("gpu", "locate", with_kinds)
    if key not in spec.caches:
        header = _table("starts", list(spec.starts)) + _table("steps", list(spec.inverse_steps()))
        header += _integers("bounds", spec.first_intervals().tolist())
        kind = f" + kinds[i] * {spec.n_intervals}" if with_kinds else ""
        body = f"""
            const int i = BLOCK_X * {THREADS} + THREAD_X;
            if (i < x_shape[0]) {{
                const float r = float(x[i]);
                int piece = 0;
                for (int p = 1; p < {len(spec.counts)}; ++p) piece += (r >= starts[p]) ? 1 : 0;
                const float offset = FMIN(r, {literal(spec.cutoff)}) - starts[piece];
                int index = int(FLOOR(offset * steps[piece])) + bounds[piece];
                const int last = bounds[piece + 1] - 1;
                index = index < bounds[piece] ? bounds[piece] : (index > last ? last : index);
                out[i] = (index{kind}) * {N_POWERS};
            }}
        """
        inputs = ["x", *(["kinds"] if with_kinds else [])]
        spec.caches[key] = GeneratedKernel("interval_locate", inputs, ["out"], body, header)
    return spec.caches[key]


def _powers_kernel(spec: IntervalSpec, kind: str, order: int, dtype: mx.Dtype) -> GeneratedKernel:
    key = ("gpu", kind, order, dtype)
    if key not in spec.caches:
        n_directions = order if kind == "out" else order - 1
        names = [f"a{i}" for i in range(n_directions)]
        inputs = ["x", *(["g"] if kind == "adjoint" else []), *names, "rows", "left", "inverse"]
        scale = "".join([" * inv"] * order + [f" * float({name}[i])" for name in names])
        powers = "const float t0 = inside ? 1.0f : 0.0f, t1 = inside ? t : 0.0f;\n"
        powers += "const float t2 = t1 * t1, t3 = t1 * t2, t4 = t2 * t2, t5 = t2 * t3;\n"

        def value(m: int) -> str:
            return f"{literal(math.perm(m, order))} * t{m - order}"

        word = WORD_OF_TYPE[dtype]
        if kind == "out":
            write = "\n".join(
                f"out[INDEX(i) * {N_POWERS} + {m}] = "
                + (f"{word}({value(m)} * scale);" if m >= order else f"{word}({literal(0)});")
                for m in range(N_POWERS)
            )
        else:
            terms = [
                f"float(g[INDEX(i) * {N_POWERS} + {m}]) * ({value(m)})"
                for m in range(order, N_POWERS)
            ]
            write = f"out[i] = {word}(scale * ({' + '.join(terms)}));"
        body = f"""
            const int i = BLOCK_X * {THREADS} + THREAD_X;
            if (i < x_shape[0]) {{
                const float r = float(x[i]);
                const int index = (rows[i] / {N_POWERS}) % {spec.n_intervals};
                const float inv = inverse[index], t = (r - left[index]) * inv;
                const bool inside = r < {literal(spec.cutoff)};
                const float scale = {literal(1)}{scale};
                {powers}
                {write}
            }}
        """
        spec.caches[key] = GeneratedKernel(f"interval_{kind}_{order}", inputs, ["out"], body)
    return spec.caches[key]


def interval_refusal(order: int, *arrays: mx.array) -> str | None:
    """Why the kernels cannot take these arguments; None if they can."""
    if order > LARGEST_ORDER:
        return f"derivatives of order {order} (the kernels end at {LARGEST_ORDER})"
    refused = refusal(*arrays)
    return refused or grid_refusal(-(-arrays[0].shape[0] // THREADS), THREADS)


def locate(spec: IntervalSpec, length: mx.array, kinds: Sequence[mx.array]) -> mx.array:
    """First row of each distance, see `mlpot.kernels.interval_powers.locate`."""
    n = length.shape[0]
    (out,) = _locate_kernel(spec, bool(kinds))(
        [length, *kinds], [(n,)], [mx.int32], blocks=-(-n // THREADS), threads=THREADS
    )
    return out


def interval_powers(
    spec: IntervalSpec, kind: str, order: int, arrays: Sequence[mx.array], rows: mx.array
) -> mx.array:
    """A map of the powers, see `mlpot.kernels.interval_powers`.

    Args:
        spec: the grid.
        kind: "out" or "adjoint".
        order: of the derivative, at most 3.
        arrays: distances (n,), for an adjoint g (n, 6), and the directions (n,).
        rows: (n,) int32.
    """
    x = arrays[0]
    n = x.shape[0]
    constants = [spec.constant(name)(mx.float32) for name in ("left", "inverse")]
    shape = (n, N_POWERS) if kind == "out" else (n,)
    (out,) = _powers_kernel(spec, kind, order, x.dtype)(
        [*arrays, rows, *constants], [shape], [x.dtype], blocks=-(-n // THREADS), threads=THREADS
    )
    return out
