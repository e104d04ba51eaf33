"""The C++ gather and segment sum against numpy."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from seeds import generator

from mlpot.kernels import native
from mlpot.kernels.native import loader

DTYPES = {"float32": mx.float32, "float64": mx.float64}
SHAPES = [  # rows, segments, rest of the shape
    (100, 7, (5,)),
    (100, 7, ()),
    (1000, 300, (33, 2)),
    (1, 1, (4,)),
    (0, 3, (4,)),
    (20, 50, (1,)),
    (3000, 10, (64,)),
    (700, 300, (600,)),  # sums beyond the second-level cache
    (200, 9, (300,)),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize(("rows", "segments", "rest"), SHAPES)
def test_values(rows, segments, rest, in_order, dtype):
    rng = generator()
    index = rng.integers(0, segments, rows)
    index = np.sort(index) if in_order else index
    with mx.stream(mx.cpu):
        x = mx.array(rng.normal(size=(rows, *rest)), dtype=DTYPES[dtype])
        total = np.array(native.segment_sum(x, mx.array(index), segments))
        table = mx.array(rng.normal(size=(segments, *rest)), dtype=DTYPES[dtype])
        picked = np.array(native.gather(table, mx.array(index)))
    want = np.zeros((segments, *rest))
    np.add.at(want, index, np.array(x, dtype=np.float64))
    assert total.shape == want.shape
    size = np.zeros((segments, *rest))
    np.add.at(size, index, np.abs(np.array(x, dtype=np.float64)))
    epsilon = 6e-8 if dtype == "float32" else 1.2e-16
    assert np.all(np.abs(total - want) <= epsilon * (rows // segments + 20) * size)
    assert np.array_equal(picked, np.array(table)[index])


def test_same_bits_with_any_number_of_threads():
    rng = generator()
    x = mx.array(rng.normal(size=(20_000, 32)), dtype=mx.float32)
    index = mx.array(rng.integers(0, 500, 20_000))
    before = native.num_threads()
    results = []
    try:
        for n in (1, 2, 2, 4):
            native.set_num_threads(n)
            with mx.stream(mx.cpu):
                total = np.array(native.segment_sum(x, index, 500))
                back = np.array(native.gather(mx.array(total), index))
            results.append((total.tobytes(), back.tobytes()))
    finally:
        native.set_num_threads(before)
    assert len(set(results)) == 1


@pytest.mark.parametrize("bad", [-1, 4])
def test_an_index_outside_gives_nan_and_a_word(bad, capfd):
    index = mx.array([0, bad])
    with mx.stream(mx.cpu):
        for lazy in (
            native.gather(mx.ones((4, 2)), index),
            native.segment_sum(mx.ones((2, 2)), index, 4),
        ):
            assert np.isnan(np.array(lazy)).all()
            message = f"mlpot: error: index {bad} is outside 0..3; the result is NaN"
            assert message in capfd.readouterr().err
        assert native.gather(mx.ones((4, 2)), mx.array([3])).sum().item() == 2


def test_one_index_for_each_row():
    module = loader.module()
    assert module is not None
    with mx.stream(mx.cpu), pytest.raises(ValueError, match="one index is needed for each row"):
        module.segment_sum(mx.ones((3, 2)), mx.array([0, 1]), 2)


def test_vmap():
    rng = generator()
    x = mx.array(rng.normal(size=(3, 10, 4)), dtype=mx.float64)
    index = mx.array(rng.integers(0, 5, 10))
    with mx.stream(mx.cpu):
        got = mx.vmap(lambda a: native.segment_sum(a, index, 5))(x)
        want = mx.stack([native.segment_sum(x[i], index, 5) for i in range(3)])
    assert np.array_equal(np.array(got), np.array(want))


def test_mistakes_do_not_block_what_follows(capfd):
    """An exception in a task would make MLX wait forever once some ten tasks are behind it."""
    with mx.stream(mx.cpu):
        for _ in range(30):
            long = native.gather(mx.ones((4, 2)), mx.array([0, 9]))
            for _ in range(200):
                long = mx.sin(long) + 1.0
            mx.async_eval(long)
        assert np.isnan(np.array(long)).all()
    assert capfd.readouterr().err.count("outside") == 30
