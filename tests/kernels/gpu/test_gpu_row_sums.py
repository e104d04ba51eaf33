"""The adjoint to a table from that to the weights, on an emulated GPU."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from emulated_gpu import assert_close, emulated_gpu, random_array
from host_cuda import HostKernel

from mlpot.kernels.gpu import row_sums
from mlpot.kernels.gpu.row_sums import RowOrder, adjoint_to_table

pytestmark = pytest.mark.emulated


def wanted(h: mx.array, w_bar: mx.array, rows: np.ndarray, n_rows: int) -> np.ndarray:
    found, n_coefficients = np.zeros((n_rows, w_bar.shape[1])), h.shape[1]
    a, b = np.array(h.astype(mx.float32), float), np.array(w_bar.astype(mx.float32), float)
    for e, row in enumerate(rows):
        if 0 <= row <= n_rows - n_coefficients:
            for m in range(n_coefficients):
                found[row + m] += a[e, m] * b[e]
    return found


def check(rows, n_rows, n_coefficients, n_weights, dtype=mx.float32, tolerance=2e-6):
    rows = np.asarray(rows, np.int32)
    h = random_array((len(rows), n_coefficients), dtype)
    w_bar = random_array((len(rows), n_weights), dtype)
    with emulated_gpu() as device:
        order = RowOrder.of(mx.array(rows), n_rows - n_coefficients + 1)
        found = adjoint_to_table(h, w_bar, order)
    assert found.dtype == dtype
    assert_close(found, wanted(h, w_bar, rows, n_rows), tolerance)
    assert all(c.spill_bytes == 0 for c in device.compiled.values())


@pytest.mark.parametrize("n_weights", [1, 6, 8, 132])
def test_columns(n_weights):
    """One, two or four columns a thread; more threads than columns."""
    check(np.random.default_rng(0).integers(0, 8, 70), 10, 3, n_weights)


def test_rows_without_edges_and_full_ones():
    """Rows that several chunks share, gaps within and between chunks, ends without edges."""
    rows = np.repeat([3, 4, 9, 20, 21, 33], [1, 150, 2, 64, 60, 5])
    check(np.random.default_rng(1).permutation(rows), 46, 6, 4)


@pytest.mark.parametrize("rows", [[0], [4], [2] * 64, [2] * 65, [0, 4]])
def test_few_rows(rows):
    check(rows, 6, 2, 4)


def test_rows_that_do_not_exist_count_for_nothing():
    check([-3, 0, 2, 3, 5, 6, 9, -1], 6, 2, 4)
    check([-3] * 70 + [1] * 3 + [8] * 70, 6, 2, 4)


def test_short_number_types_are_summed_in_float32():
    check(np.random.default_rng(2).integers(0, 3, 100), 5, 3, 4, mx.float16, 1e-3)


def test_chunks_grow_where_their_sums_would_take_too_much_memory():
    fits = row_sums.SLOTS_BYTES // 4
    found = [
        row_sums.places_of_chunk(n_edges, n_sums)
        for n_edges, n_sums in (
            (64, fits),
            (128, fits // 2),
            (128, fits // 2 + 1),
            (64 * 100, fits // 50),
            (1, 10 * fits),
        )
    ]
    assert found == [64, 64, 128, 128, 64]


@pytest.mark.parametrize("longer", [False, True])
def test_longer_chunks(monkeypatch, longer):
    monkeypatch.setattr(row_sums, "SLOTS_BYTES", 4 * 4 * 2 * (2 if longer else 3))
    assert row_sums.places_of_chunk(150, 8) == (128 if longer else 64)
    check(np.random.default_rng(3).integers(0, 4, 150), 5, 2, 4)


def test_weights_that_begin_anywhere(tmp_path):
    h, w_bar = random_array((7, 2)), random_array((7, 8))
    rows = np.array([0, 1, 1, 2, 2, 2, 3], np.int32)
    arrays = [h, w_bar, mx.array(rows), mx.arange(7).astype(mx.int32)]
    arrays.append(mx.array(np.array([0, 1, 3, 6, 7], np.int32)))
    kernel = row_sums.slots_kernel(2, 4, 64)
    kinds = tuple((a.dtype, a.ndim) for a in arrays)
    host = HostKernel(kernel.cuda_text(kinds, (mx.float32,), wide=False), tmp_path)
    inputs = [np.array(a) for a in arrays]
    for start in range(3):
        starts = [0, start, 0, 0, 0]
        slots, misaligned = host(inputs, starts, (4, 2, 8), 1, row_sums.THREADS)
        assert misaligned == 0
        total = np.zeros((5, 8))
        for first in range(4):
            total[first : first + 2] += slots[first]
        assert_close(mx.array(total.astype(np.float32)), wanted(h, w_bar, rows, 5), 2e-6)
