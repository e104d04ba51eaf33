"""Gather and segment sums on an emulated GPU against float64."""

from __future__ import annotations

from itertools import pairwise

import mlx.core as mx
import numpy as np
import pytest
from emulated_gpu import assert_close, emulated_gpu, random_array

from mlpot import kernels
from mlpot.kernels import gpu
from mlpot.kernels.gpu import segment

pytestmark = pytest.mark.emulated


def positive(shape: tuple[int, ...], dtype: mx.Dtype = mx.float32) -> mx.array:
    """Numbers whose sums are as large as the sums of their sizes: nothing cancels."""
    return mx.abs(random_array(shape, dtype))


def offsets(counts: list[int]) -> mx.array:
    return mx.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))


def sums(x: mx.array, ptr: mx.array, perm: mx.array | None = None) -> np.ndarray:
    rows = np.array(x.astype(mx.float32), np.float64)
    rows = rows if perm is None else rows[np.array(perm)]
    ends = np.array(ptr)
    return np.stack([rows[a:b].sum(axis=0) for a, b in pairwise(ends)])


@pytest.mark.parametrize("rest", [(), (1,), (3,), (2, 5)])
@pytest.mark.parametrize(("n_rows", "n"), [(1, 1), (5, 7), (40, 300)])
def test_gather(n_rows, n, rest):
    x = random_array((n_rows, *rest))
    index = mx.array(np.random.default_rng(1).integers(0, n_rows, n).astype(np.int32))
    with emulated_gpu() as device:
        found = gpu.gather(x, index)
    assert mx.array_equal(found, x[index])
    assert device.kernels == ["gather"]


def test_gather_of_rows_that_do_not_exist():
    x = random_array((4, 3))
    with emulated_gpu():
        found = gpu.gather(x, mx.array([0, 4, -1, 3]))
    assert np.isnan(np.array(found)).all(axis=1).tolist() == [False, True, True, False]
    assert mx.array_equal(found[3], x[3])


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
def test_gather_of_short_number_types(dtype):
    x = random_array((9, 2), dtype)
    with emulated_gpu():
        found = gpu.gather(x, mx.array([8, 8, 0]))
    assert mx.array_equal(found, x[mx.array([8, 8, 0])])


@pytest.mark.parametrize("permuted", [False, True])
@pytest.mark.parametrize("rest", [(), (3,), (2, 17)])
@pytest.mark.parametrize("counts", [[1], [0, 3, 0], [4, 0, 0, 9, 1, 31]])
def test_sums_of_short_segments(counts, rest, permuted):
    n, ptr = sum(counts), offsets(counts)
    x = positive((n, *rest))
    perm = mx.array(np.random.default_rng(2).permutation(n).astype(np.int32)) if permuted else None
    with emulated_gpu() as device:
        found = gpu.segment_sum(x, ptr, perm)
    assert_close(found, sums(x, ptr, perm), 1e-6)
    assert device.kernels == ["segment_sum_threads"]


@pytest.mark.parametrize("permuted", [False, True])
@pytest.mark.parametrize(
    ("counts", "rest", "parts"),
    [
        ([700, 0, 33], (3,), 1),
        ([segment.LONG_SEGMENT], (), 1),
        ([2 * segment.ROWS_OF_BLOCK + 5], (2,), 4),
        ([9000, 0, 1], (1,), 2),
    ],
)
def test_sums_of_long_segments(counts, rest, parts, permuted):
    n, ptr = sum(counts), offsets(counts)
    x = positive((n, *rest))
    perm = mx.array(np.random.default_rng(2).permutation(n).astype(np.int32)) if permuted else None
    with emulated_gpu() as device:
        found = gpu.segment_sum(x, ptr, perm)
    assert_close(found, sums(x, ptr, perm), 1e-6)
    assert device.kernels == [f"segment_sum_blocks_{parts}"]


@pytest.mark.parametrize(
    ("length", "columns", "kernel"),
    [
        (segment.LONG_SEGMENT - 1, 1, "segment_sum_threads"),
        (segment.LONG_SEGMENT, segment.MOST_BLOCK_COLUMNS, "segment_sum_blocks_1"),
        (segment.LONG_SEGMENT, segment.MOST_BLOCK_COLUMNS + 1, "segment_sum_threads"),
    ],
)
def test_which_kernel_sums(length, columns, kernel):
    x, ptr = positive((length, columns)), offsets([length])
    with emulated_gpu() as device:
        found = gpu.segment_sum(x, ptr)
    assert_close(found, sums(x, ptr), 1e-6)
    assert device.kernels == [kernel]


@pytest.mark.parametrize(("dtype", "tolerance"), [(mx.float16, 1e-3), (mx.bfloat16, 8e-3)])
@pytest.mark.parametrize("counts", [[5, 2], [100]])
def test_sums_of_short_number_types(counts, dtype, tolerance):
    x, ptr = positive((sum(counts), 2), dtype), offsets(counts)
    with emulated_gpu():
        found = gpu.segment_sum(x, ptr)
    assert found.dtype == dtype
    assert_close(found, sums(x, ptr), tolerance)


@pytest.mark.parametrize("counts", [[1], [0, 3, 0, 0, 8, 0], [5] * 300])
def test_starts_of_segments(counts):
    index = np.repeat(np.arange(len(counts)), counts).astype(np.int32)
    with emulated_gpu():
        found = gpu.segment_starts(mx.array(index), len(counts))
    assert mx.array_equal(found, offsets(counts))


def test_rows_outside_belong_to_no_segment():
    with emulated_gpu():
        found = gpu.segment_starts(mx.array([-1, 0, 2, 2, 3, 7]), 3)
    assert found.tolist() == [1, 2, 2, 4]


def test_number_of_parts():
    rows = segment.ROWS_OF_BLOCK
    found = [segment.parts_of_segment(n) for n in (1, rows, rows + 1, 4 * rows, 1e9)]
    assert found == [1, 1, 2, 4, segment.MOST_PARTS]


@pytest.mark.parametrize(
    ("x", "n_segments", "reason"),
    [
        (mx.zeros((3, 2)), 4, None),
        (mx.zeros((3, 2)), 0, "there is no segment"),
        (mx.zeros((0, 2)), 4, "an array is empty"),
        (mx.zeros((3, 2), mx.int32), 4, "is not one of"),
        (mx.zeros((3, 2)), 2**31 // segment.THREADS, "the most is"),
    ],
)
def test_refusals_of_sums(x, n_segments, reason):
    with emulated_gpu():
        found = gpu.segment_sum_refusal(x, n_segments)
    assert found is None if reason is None else reason in (found or "")


@pytest.mark.parametrize(
    ("x", "n", "reason"),
    [
        (mx.zeros((3, 2)), 4, None),
        (mx.zeros((3, 2)), 0, "an array is empty"),
        (mx.zeros((0, 2)), 4, "an array is empty"),
        (mx.zeros((3, 2), mx.int32), 4, "is not one of"),
    ],
)
def test_refusals_of_gather(x, n, reason):
    with emulated_gpu():
        found = gpu.gather_refusal(x, mx.zeros((n,), mx.int32))
    assert found is None if reason is None else reason in (found or "")


KERNELS = {
    "nothing": ["segment_starts", "segment_sum_threads"],
    "nondecreasing": ["segment_starts", "segment_sum_threads"],
    "offsets": ["segment_sum_threads"],
    "permutation": ["segment_sum_threads"],
}


@pytest.mark.parametrize("known", KERNELS)
def test_primitives(known):
    index = np.array([0, 0, 2, 4, 4, 4]) if known != "nothing" else np.array([4, 0, 2, 0, 4, 4])
    perm = np.argsort(index, kind="stable")
    ptr = offsets(np.bincount(index, minlength=5).tolist())
    order = {
        "nothing": None,
        "nondecreasing": kernels.SegmentOrder(),
        "offsets": kernels.SegmentOrder(ptr),
        "permutation": kernels.SegmentOrder(ptr, mx.array(perm.astype(np.int32))),
    }[known]
    place, x, g = mx.array(index), random_array((6, 3)), random_array((5, 3))
    with emulated_gpu() as device:
        found = kernels.segment_sum(x, place, 5, order)
        back = mx.grad(lambda q: (kernels.segment_sum(q, place, 5, order) * g).sum())(x)
        mx.eval(found, back)
    wanted = np.zeros((5, 3))
    np.add.at(wanted, index, np.array(x, np.float64))
    assert_close(found, wanted, 1e-6)
    assert mx.array_equal(back, g[place])
    assert device.kernels == [*KERNELS[known], *KERNELS[known], "gather"]


def test_energy_like_nesting():
    index = mx.array([0, 1, 1, 3, 3, 3])
    x, v = random_array((4, 2)), random_array((4, 2), seed=1)

    def energy(q):
        rows = kernels.gather(q, index, kernels.SegmentOrder())
        return (kernels.segment_sum(rows * rows * rows, index, 4, kernels.SegmentOrder())).sum()

    with emulated_gpu():
        found = mx.jvp(mx.grad(energy), [x], [v])[1][0]
        mx.eval(found)
    counts = np.array([1, 2, 0, 3])[:, None]
    assert_close(found, 6 * counts * np.array(x, np.float64) * np.array(v, np.float64), 2e-6)
