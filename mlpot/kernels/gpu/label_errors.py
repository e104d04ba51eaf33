"""Text of the kernels of losses: one block adds all errors up, one thread a number goes back."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import mlx.core as mx

from .dialect import literal
from .generated import GeneratedKernel
from .refusals import refusal

THREADS = 256
#: Numbers of a term beyond which one block would take longer than the launches it saves.
MOST = 2**18

#: Of each term: its row, numbers in a label, whether errors are divided by a size.
Terms = tuple[tuple[int, int, bool], ...]


def _inputs(terms: Terms) -> list[str]:
    names = []
    for row, _, sized in terms:
        parts = ["value", "label", "weight", "mask", *["size"] * sized]
        names += [f"{part}{row}" for part in parts]
    return [*names, "counts", "weights"]


def _error(row: int, width: int, sized: bool) -> str:
    """Statements that give k, the label's number, and e, the error."""
    divided = f" / FMAX(size{row}[k], 1.0f)" if sized else ""
    return (
        f"const int k = i / {width};\n"
        f"const float e = mask{row}[k] ? (value{row}[i] - label{row}[i]){divided} : 0.0f;"
    )


@cache
def _forward(terms: Terms, delta: float | None) -> GeneratedKernel:
    penalty = "square"
    if delta is not None:
        bound = literal(delta)
        penalty = f"size <= {bound} ? square : {bound} * (2.0f * size - {bound})"
    body = ["SHARED float parts[128];"]
    body.append("if (THREAD_X < 128) parts[THREAD_X] = 0.0f;\nBARRIER();")
    for row, width, sized in terms:
        body.append(f"""{{
            float loss = 0.0f, known = 0.0f, absolute = 0.0f, squares = 0.0f;
            for (int i = THREAD_X; i < mask{row}_shape[0] * {width}; i += {THREADS}) {{
                {_error(row, width, sized)}
                const float size = FABS(e), square = e * e;
                loss += weight{row}[k] * ({penalty});
                known += mask{row}[k] ? 1.0f : 0.0f;
                absolute += size;
                squares += square;
            }}
            loss = SIMD_SUM(loss);
            known = SIMD_SUM(known);
            absolute = SIMD_SUM(absolute);
            squares = SIMD_SUM(squares);
            if (LANE == 0) {{
                parts[WARP * 16 + {4 * row}] = loss;
                parts[WARP * 16 + {4 * row + 1}] = known;
                parts[WARP * 16 + {4 * row + 2}] = absolute;
                parts[WARP * 16 + {4 * row + 3}] = squares;
            }}
        }}""")
    body.append(f"""
        BARRIER();
        if (THREAD_X < 16) {{
            float sum = 0.0f;
            for (int w = 0; w < {THREADS // 32}; ++w) sum += parts[w * 16 + THREAD_X];
            sums[THREAD_X] = sum;
        }}
        if (THREAD_X == 0) {{
            float total = 0.0f;
            for (int t = 0; t < 4; ++t) {{
                float sum = 0.0f;
                for (int w = 0; w < {THREADS // 32}; ++w) sum += parts[w * 16 + 4 * t];
                total += weights[t] * sum / FMAX(counts[t], 1.0f);
            }}
            loss_out[0] = total;
        }}
    """)
    return GeneratedKernel("label_errors", _inputs(terms), ["loss_out", "sums"], "\n".join(body))


@cache
def _backward(terms: Terms, delta: float | None) -> GeneratedKernel:
    slope = "2.0f * e"
    if delta is not None:
        bound = literal(delta)
        slope = f"2.0f * FMIN(FMAX(e, -{bound}), {bound})"
    body = [f"const int i = BLOCK_X * {THREADS} + THREAD_X;"]
    for row, width, sized in terms:
        divided = f" / FMAX(size{row}[k], 1.0f)" if sized else ""
        body.append(f"""if (i < mask{row}_shape[0] * {width}) {{
            {_error(row, width, sized)}
            const float share = cotangent[0] * weights[{row}] / FMAX(counts[{row}], 1.0f);
            out{row}[i] = share * weight{row}[k] * ({slope}){divided};
        }}""")
    outputs = [f"out{row}" for row, *_ in terms]
    return GeneratedKernel(
        "label_errors_adjoint", [*_inputs(terms), "cotangent"], outputs, "\n".join(body)
    )


def label_errors_refusal(values: Sequence[mx.array], floats: Sequence[mx.array]) -> str | None:
    """Why the kernels cannot take these arguments; None if they can."""
    refused = refusal(*values, *floats, types=(mx.float32,))
    if refused is None and max(value.size for value in values) > MOST:
        return f"{max(value.size for value in values)} numbers (the most is {MOST})"
    return refused


def label_errors(
    terms: Terms, delta: float | None, arrays: Sequence[mx.array]
) -> tuple[mx.array, mx.array]:
    """Loss () and sums (4, 4), see `mlpot.kernels.label_errors`."""
    loss, sums = _forward(terms, delta)(
        arrays, [(1,), (16,)], [mx.float32] * 2, blocks=1, threads=THREADS
    )
    return loss.reshape(()), sums.reshape(4, 4)


def label_errors_adjoint(
    terms: Terms, delta: float | None, arrays: Sequence[mx.array], cotangent: mx.array
) -> list[mx.array]:
    """Gradients of the loss to the values of all terms, flat."""
    given = dict(zip(_inputs(terms), arrays, strict=True))
    shapes = [given[f"value{row}"].shape for row, *_ in terms]
    return _backward(terms, delta)(
        [*arrays, cotangent.reshape(1)],
        shapes,
        [mx.float32] * len(shapes),
        blocks=-(-max(n for (n,) in shapes) // THREADS),
        threads=THREADS,
    )
