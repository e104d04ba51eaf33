"""Text of the kernels that move all parameters of a model at once.

A kernel takes many arrays: its blocks are dealt out to them in order, and a chain of comparisons
finds the array of a block. How many arrays fit is bounded by what a kernel may be given.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import mlx.core as mx

from .generated import GeneratedKernel, grid_refusal, running_dialect
from .refusals import refusal

THREADS = 256
#: Numbers of an array that a block squares and adds up.
PIECE = 2048
#: Bytes that a CUDA kernel may be given, less what is not counted here: a pointer an array, an
#: integer a size. (Newer ones take eight times as much.)
CUDA_BYTES = 3900
#: Buffers of a Metal kernel; a size is one, too.
METAL_BUFFERS = 31

_ADAM = """
            const float slope = g{k}[i] * clip;
            const float mean = numbers[3] * m{k}[i] + numbers[4] * slope;
            const float square = numbers[5] * v{k}[i] + numbers[6] * (slope * slope);
            const float moved = p{k}[i] * kept - rate * mean / (SQRT(square) * root + eps);
            p{k}_out[i] = moved;
            m{k}_out[i] = mean;
            v{k}_out[i] = square;"""
_AVERAGE = """
            a{k}_out[i] = numbers[9] * a{k}[i] + (1.0f - numbers[9]) * moved;"""
_MIX = """
            out{k}[i] = share[0] * x{k}[i] + (1.0f - share[0]) * y{k}[i];"""
_SQUARES = """
            sum = FMA(x{k}[i], x{k}[i], sum);"""

_SHARED_SUM = """
    SHARED float parts[8];
    sum = SIMD_SUM(sum);
    if (LANE == 0) parts[WARP] = sum;
    BARRIER();
    if (THREAD_X == 0) {
        float whole = 0.0f;
        for (int w = 0; w < 8; ++w) whole += parts[w];
"""

# 1 - b^n from n log(b), without the loss of digits that the difference has where it is small.
_POWER_HEADER = """
FUNCTION float one_minus_exp(float x) {
    if (x < -0.5f) return 1.0f - EXP(x);
    float term = 1.0f, sum = 0.0f;
    for (int n = 1; n < 10; ++n) {
        term *= x / float(n);
        sum -= term;
    }
    return sum;
}
"""
_NUMBERS = """
    float sum = 0.0f;
    for (int i = THREAD_X; i < squares_shape[0]; i += 256) sum += squares[i];
{shared_sum}
        const float length = SQRT(whole);
        const float taken = float(counter[0] + 1);
        norm[0] = length;
        counter_out[0] = counter[0] + 1;
        numbers[0] = rate[0] / one_minus_exp(taken * options[0]);
        numbers[1] = RSQRT(one_minus_exp(taken * options[1]));
        numbers[2] = 1.0f - rate[0] * options[7];
        for (int k = 2; k < 7; ++k) numbers[k + 1] = options[k];
        numbers[8] = FMIN(options[8] / (length + 1.0e-6f), 1.0f);
        numbers[9] = decay[0];
    }
"""


def _for_each(statement: str, n: int, sized: str, piece: int = THREADS) -> str:
    """A chain that applies a statement to the numbers of the array that a block belongs to.

    Args:
        statement: with {k} for the number of the array, i for the number in it.
        n: how many arrays.
        sized: name of the input that tells the size, with {k}.
        piece: numbers that a block treats.
    """
    lines, chain = ["    int block = BLOCK_X;", "    bool found = false;"], []
    for k in range(n):
        size = f"{sized.format(k=k)}_shape[0]"
        chain.append(f"""
    if (!found) {{
        const int blocks = ({size} + {piece - 1}) / {piece};
        if (block < blocks) {{
            found = true;
            const int start = block * {piece};
            for (int i = start + THREAD_X; i < start + {piece} && i < {size}; i += {THREADS}) {{\
{statement.format(k=k)}
            }}
        }}
        block -= blocks;
    }}""")
    return "\n".join([*lines, *chain]) + "\n"


def _names(letters: Sequence[str], n: int) -> list[str]:
    return [f"{letter.format(k=k)}" for letter in letters for k in range(n)]


@cache
def _adam(n: int, averaged: bool) -> GeneratedKernel:
    head = (
        "    const float rate = numbers[0], root = numbers[1], kept = numbers[2];\n"
        "    const float eps = numbers[7], clip = numbers[8];\n"
    )
    inputs = ["p{k}", "g{k}", "m{k}", "v{k}", *["a{k}"] * averaged]
    outputs = ["p{k}_out", "m{k}_out", "v{k}_out", *["a{k}_out"] * averaged]
    body = head + _for_each(_ADAM + _AVERAGE * averaged, n, "g{k}")
    return GeneratedKernel("adam", [*_names(inputs, n), "numbers"], _names(outputs, n), body)


@cache
def _mix(n: int) -> GeneratedKernel:
    body = _for_each(_MIX, n, "x{k}")
    return GeneratedKernel(
        "mix", [*_names(["x{k}", "y{k}"], n), "share"], _names(["out{k}"], n), body
    )


@cache
def _squares(n: int) -> GeneratedKernel:
    body = "    float sum = 0.0f;\n" + _for_each(_SQUARES, n, "x{k}", PIECE)
    body += _SHARED_SUM + "        squares[BLOCK_X] = whole;\n    }\n"
    return GeneratedKernel("squares", _names(["x{k}"], n), ["squares"], body)


@cache
def _numbers() -> GeneratedKernel:
    return GeneratedKernel(
        "step_numbers",
        ["squares", "counter", "rate", "decay", "options"],
        ["numbers", "counter_out", "norm"],
        _NUMBERS.replace("{shared_sum}", _SHARED_SUM),
        _POWER_HEADER,
    )


def update_refusal(*arrays: mx.array) -> str | None:
    """Why the kernels cannot take parameters of these sizes; None if they can."""
    blocks = sum(-(-array.size // THREADS) for array in arrays)
    return refusal(*arrays, types=(mx.float32,)) or grid_refusal(blocks, THREADS)


def _groups(n: int, pointers: int, others: int = 0) -> list[range]:
    """Numbers of arrays that go together.

    Args:
        n: how many there are.
        pointers: inputs and outputs for each.
        others: inputs and outputs for all.
    """
    if running_dialect() == "metal":
        most = (METAL_BUFFERS - others) // (pointers + 1)
    else:
        most = (CUDA_BYTES - 8 * others) // (8 * pointers + 4)
    return [range(start, min(start + most, n)) for start in range(0, n, most)]


def _blocks(arrays: Sequence[mx.array], piece: int = THREADS) -> int:
    return sum(-(-array.size // piece) for array in arrays)


def _flat(arrays: Sequence[mx.array]) -> list[mx.array]:
    return [array.reshape(-1) for array in arrays]


def squares(arrays: Sequence[mx.array]) -> mx.array:
    """Sums of the squares of pieces of the arrays, (n_pieces,)."""
    found = []
    for group in _groups(len(arrays), 1, others=1):
        given = _flat([arrays[k] for k in group])
        n = _blocks(given, PIECE)
        found += _squares(len(given))(given, [(n,)], [mx.float32], blocks=n, threads=THREADS)
    return found[0] if len(found) == 1 else mx.concatenate(found)


def step_numbers(
    gradients: Sequence[mx.array],
    counter: mx.array,
    rate: mx.array,
    decay: mx.array,
    options: Sequence[float],
) -> tuple[mx.array, mx.array, mx.array]:
    """See `mlpot.kernels.updates.step_numbers`.

    Args:
        gradients: all of them.
        counter: (), steps done.
        rate: (), learning rate.
        decay: (), of running averages.
        options: logarithms of beta1 and beta2, beta1, 1 - beta1, beta2, 1 - beta2, epsilon, weight
            decay, largest norm of the gradient.
    """
    fixed = mx.array(list(options), dtype=mx.float32)
    one = [number.reshape(1) for number in (counter, rate, decay)]
    numbers, counted, norm = _numbers()(
        [squares(gradients), *one, fixed],
        [(10,), (1,), (1,)],
        [mx.float32, counter.dtype, mx.float32],
        blocks=1,
        threads=THREADS,
    )
    return numbers, counted.reshape(()), norm.reshape(())


def adam_step(
    parameters: Sequence[mx.array],
    gradients: Sequence[mx.array],
    m: Sequence[mx.array],
    v: Sequence[mx.array],
    averages: Sequence[mx.array],
    numbers: mx.array,
) -> tuple[list[mx.array], list[mx.array], list[mx.array], list[mx.array]]:
    """A step of Adam and of the running average, see `mlpot.kernels.updates.adam`."""
    kinds = [list(kind) for kind in (parameters, gradients, m, v, averages) if kind]
    results: list[list[mx.array]] = [[] for _ in range(len(kinds) - 1)]
    for group in _groups(len(gradients), 2 * len(kinds) - 1, others=1):
        given = [array for kind in kinds for array in _flat([kind[k] for k in group])]
        shapes = [gradients[k].shape for k in group]
        sizes = [(gradients[k].size,) for k in group] * len(results)
        found = _adam(len(group), bool(averages))(
            [*given, numbers],
            sizes,
            [mx.float32] * len(sizes),
            blocks=_blocks([gradients[k] for k in group]),
            threads=THREADS,
        )
        for number, kind in enumerate(results):
            mine = found[number * len(group) : (number + 1) * len(group)]
            kind += [array.reshape(shape) for array, shape in zip(mine, shapes, strict=True)]
    moved, means, variances, *mixed = results
    return moved, means, variances, mixed[0] if mixed else []


def mix(x: Sequence[mx.array], y: Sequence[mx.array], share: mx.array) -> list[mx.array]:
    """``share x + (1 - share) y`` for many arrays.

    Args:
        x: any shapes, float32.
        y: same shapes.
        share: one number.
    """
    found: list[mx.array] = []
    for group in _groups(len(x), 3, others=1):
        ours = _flat([x[k] for k in group])
        mixed = _mix(len(group))(
            [*ours, *_flat([y[k] for k in group]), share.reshape(1)],
            [array.shape for array in ours],
            [mx.float32] * len(ours),
            blocks=_blocks(ours),
            threads=THREADS,
        )
        found += [m.reshape(x[k].shape) for m, k in zip(mixed, group, strict=True)]
    return found
