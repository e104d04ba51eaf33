"""Gather and segment sums: sums in the order of the rows, so the same bits come out every time.

Rows of a segment are consecutive in a list: ``ptr[s] : ptr[s + 1]`` are the places of segment s,
and ``perm`` (if the rows are not sorted themselves) says which row is at a place.
"""

from __future__ import annotations

from functools import cache

import mlx.core as mx
from jaxtyping import Float, Int

from ..dispatch import Nothing
from .dialect import SIMD_WIDTH, WORD_OF_TYPE
from .generated import GeneratedKernel, grid_refusal
from .refusals import refusal

THREADS = 256
#: From this mean length on a block of threads sums a segment, instead of one thread a column.
LONG_SEGMENT = 64
#: Most columns of a row for which blocks sum: a block takes one column after the other.
MOST_BLOCK_COLUMNS = 16
#: Mean number of rows that one block sums; longer segments are split and the parts summed.
ROWS_OF_BLOCK = 2048
#: Most parts of a segment.
MOST_PARTS = 256

_COLUMNS = """
    INDEX columns = 1;
    for (int axis = 1; axis < x_ndim; ++axis) columns *= x_shape[axis];
"""


@cache
def gather_kernel(dtype: mx.Dtype) -> GeneratedKernel:
    """One thread an element; rows that do not exist are NaN."""
    body = f"""{_COLUMNS}
        const int element = GLOBAL_X;
        if (element < index_shape[0] * columns) {{
            const INDEX item = element / columns, column = element - item * columns;
            const INDEX row = LOAD(index, item);
            out[element] = row >= 0 && row < x_shape[0]
                ? x[row * columns + column] : {WORD_OF_TYPE[dtype]}(NOT_A_NUMBER);
        }}
    """
    return GeneratedKernel("gather", ["x", "index"], ["out"], body)


@cache
def starts_kernel() -> GeneratedKernel:
    """Where each segment of a nondecreasing index starts, by bisection; one thread a segment."""
    body = """
        const int segment = GLOBAL_X;
        if (segment <= n_segments[0]) {
            INDEX low = 0, high = index_shape[0];
            while (low < high) {
                const INDEX middle = low + (high - low) / 2;
                if (LOAD(index, middle) < segment) low = middle + 1;
                else high = middle;
            }
            ptr[segment] = int(low);
        }
    """
    return GeneratedKernel("segment_starts", ["index", "n_segments"], ["ptr"], body)


def _row(permuted: bool) -> str:
    return "LOAD(perm, place)" if permuted else "place"


@cache
def thread_sums_kernel(dtype: mx.Dtype, permuted: bool) -> GeneratedKernel:
    """One thread a column of a segment."""
    body = f"""{_COLUMNS}
        const int element = GLOBAL_X;
        if (element < (ptr_shape[0] - 1) * columns) {{
            const INDEX segment = element / columns, column = element - segment * columns;
            const INDEX end = LOAD(ptr, segment + 1);
            float sum = 0.0f;
            for (INDEX place = LOAD(ptr, segment); place < end; ++place) {{
                const INDEX row = {_row(permuted)};
                sum += float(LOAD(x, row * columns + column));
            }}
            out[element] = {WORD_OF_TYPE[dtype]}(sum);
        }}
    """
    inputs = ["x", "ptr", *(["perm"] if permuted else [])]
    return GeneratedKernel("segment_sum_threads", inputs, ["out"], body)


@cache
def block_sums_kernel(permuted: bool, parts: int) -> GeneratedKernel:
    """One block a part of a segment, one column after the other; float32 sums of the parts."""
    n_warps = THREADS // SIMD_WIDTH
    body = f"""{_COLUMNS}
        SHARED float sums[{n_warps}];
        const INDEX segment = BLOCK_X / {parts}, part = BLOCK_X - segment * {parts};
        const INDEX first = LOAD(ptr, segment), n_rows = LOAD(ptr, segment + 1) - first;
        const INDEX share = (n_rows + {parts - 1}) / {parts};
        const INDEX skipped = part * share < n_rows ? part * share : n_rows;
        const INDEX begin = first + skipped;
        const INDEX end = begin + (n_rows - skipped < share ? n_rows - skipped : share);
        for (INDEX column = 0; column < columns; ++column) {{
            float sum = 0.0f;
            for (INDEX place = begin + THREAD_X; place < end; place += {THREADS}) {{
                const INDEX row = {_row(permuted)};
                sum += float(LOAD(x, row * columns + column));
            }}
            sum = SIMD_SUM(sum);
            if (LANE == 0) sums[WARP] = sum;
            BARRIER();
            if (THREAD_X == 0) {{
                float total = 0.0f;
                for (int warp = 0; warp < {n_warps}; ++warp) total += sums[warp];
                out[BLOCK_X * columns + column] = total;
            }}
            BARRIER();
        }}
    """
    inputs = ["x", "ptr", *(["perm"] if permuted else [])]
    return GeneratedKernel(f"segment_sum_blocks_{parts}", inputs, ["out"], body)


def _columns(x: mx.array) -> int:
    return x.size // x.shape[0]


def gather_refusal(x: mx.array, index: mx.array) -> str | None:
    """Why `gather` cannot take these arrays; None if it can."""
    if index.size == 0:
        return Nothing("an array is empty")
    refused = refusal(x)
    return refused or grid_refusal(-(-index.size * _columns(x) // THREADS), THREADS)


def gather(
    x: Float[mx.array, "n_rows *rest"], index: Int[mx.array, " n"]
) -> Float[mx.array, "n *rest"]:
    """Rows ``x[index]``; NaN where the index is outside 0..n_rows-1."""
    shape = (index.shape[0], *x.shape[1:])
    (out,) = gather_kernel(x.dtype)(
        [x, index.astype(mx.int32)],
        [shape],
        [x.dtype],
        blocks=-(-index.size * _columns(x) // THREADS),
        threads=THREADS,
    )
    return out


def segment_sum_refusal(x: mx.array, n_segments: int) -> str | None:
    """Why `segment_sum` cannot take these arguments; None if it can."""
    if n_segments == 0:
        return Nothing("there is no segment")
    refused = refusal(x)
    if refused:
        return refused
    n_blocks = max(n_segments * MOST_PARTS, -(-n_segments * _columns(x) // THREADS))
    return grid_refusal(n_blocks, THREADS)


def segment_starts(index: Int[mx.array, " n"], n_segments: int) -> Int[mx.array, " n_ptr"]:
    """Offsets (n_segments + 1,) of the segments of a nondecreasing index.

    What lies outside 0..n_segments-1 belongs to no segment.
    """
    (ptr,) = starts_kernel()(
        [index.astype(mx.int32), mx.array([n_segments], dtype=mx.int32)],
        [(n_segments + 1,)],
        [mx.int32],
        blocks=-(-(n_segments + 1) // THREADS),
        threads=THREADS,
    )
    return ptr


def segment_sum(
    x: Float[mx.array, "n *rest"],
    ptr: Int[mx.array, " n_ptr"],
    perm: Int[mx.array, " n"] | None = None,
) -> Float[mx.array, "n_segments *rest"]:
    """Sums of the rows of each segment, in the order of their places; float32 inside.

    Args:
        x: (n, ...) rows.
        ptr: (n_segments + 1,) int32, places of segment s are ``ptr[s] : ptr[s + 1]``.
        perm: (n,) int32, the row at each place; None if it is the place itself.
    """
    n_segments, columns = ptr.shape[0] - 1, _columns(x)
    inputs = [x, ptr, *([] if perm is None else [perm])]
    shape = (n_segments, *x.shape[1:])
    mean_length = x.shape[0] / n_segments
    if mean_length < LONG_SEGMENT or columns > MOST_BLOCK_COLUMNS:
        (out,) = thread_sums_kernel(x.dtype, perm is not None)(
            inputs,
            [shape],
            [x.dtype],
            blocks=-(-n_segments * columns // THREADS),
            threads=THREADS,
        )
        return out
    parts = parts_of_segment(mean_length)
    (out,) = block_sums_kernel(perm is not None, parts)(
        inputs,
        [(n_segments, parts, *x.shape[1:])],
        [mx.float32],
        blocks=n_segments * parts,
        threads=THREADS,
    )
    out = out.reshape(shape) if parts == 1 else mx.sum(out, axis=1)
    return out.astype(x.dtype)


def parts_of_segment(mean_length: float) -> int:
    """Blocks that share a segment: a power of two, so that few kernels are made."""
    parts = 1
    while parts < MOST_PARTS and mean_length > parts * ROWS_OF_BLOCK:
        parts *= 2
    return parts
