"""BatchNorm, Dropout, Extract, ExtractIr and Identity."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from algebra import close, numbers
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx.utils import tree_flatten

from mlpot import nn, o3

IRREPS = o3.Irreps("2x0e+3x1o+1x0o")


@pytest.fixture(autouse=True)
def _on_the_cpu():
    with mx.stream(mx.cpu):
        yield


def rotation(seed):
    q, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((3, 3)))
    return mx.array(q, dtype=mx.float64)


@settings(max_examples=15)
@given(seed=st.integers(0, 2**31), instance=st.booleans(), training=st.booleans())
def test_batch_norm_is_equivariant(seed, instance, training):
    norm = nn.BatchNorm(IRREPS, instance=instance)
    norm.set_dtype(mx.float64)
    norm.train(training)
    norm.weight, norm.bias = numbers(seed, 6), numbers(seed + 1, 2)
    x, D = numbers(seed + 2, 5, 4, IRREPS.dim), IRREPS.D_from_matrix(rotation(seed)).T
    assert close(norm(x @ D), norm(x) @ D)


def test_batch_norm_keeps_running_statistics_and_uses_them():
    norm = nn.BatchNorm(IRREPS, momentum=0.25, eps=0.0)
    norm.set_dtype(mx.float64)
    x = np.array(numbers(0, 40, IRREPS.dim)) * 2 + 1
    out = np.array(norm(mx.array(x, dtype=mx.float64)))
    assert np.abs(out[:, :2].mean(axis=0)).max() < 1e-14
    vectors = out[:, 2:11].reshape(40, 3, 3)
    assert np.allclose((vectors**2).mean(axis=(0, 2)), 1, rtol=1e-13)
    mean = 0.25 * x[:, :2].mean(axis=0)
    square = np.concatenate(
        [
            x[:, :2].var(axis=0),
            (x[:, 2:11].reshape(40, 3, 3) ** 2).mean(axis=(0, 2)),
            (x[:, 11:] ** 2).mean(axis=0),
        ]
    )
    square = 0.75 + 0.25 * square
    assert close(norm.running_mean, mean)
    assert close(norm.running_var, square)
    norm.eval()
    wanted = x.copy()
    wanted[:, :2] -= mean
    wanted /= np.sqrt(np.repeat(square, [1, 1, 3, 3, 3, 1]))
    assert close(norm(mx.array(x, dtype=mx.float64)), wanted)
    assert close(norm.running_mean, mean)


def test_batch_norm_statistics_are_not_trained():
    norm = nn.BatchNorm(IRREPS)
    assert {k for k, _ in tree_flatten(norm.trainable_parameters())} == {"weight", "bias"}
    norm.freeze()
    norm.unfreeze()
    assert {k for k, _ in tree_flatten(norm.trainable_parameters())} == {"weight", "bias"}
    assert not tree_flatten(nn.BatchNorm(IRREPS, instance=True, affine=False).parameters())


def test_batch_norm_edges_and_errors():
    norm = nn.BatchNorm("2x0e+0x1o+1x1o")
    assert norm(mx.ones((3, 5))).shape == (3, 5)
    assert norm(mx.ones((0, 5))).shape == (0, 5)
    with pytest.raises(ValueError, match="n_items"):
        norm(mx.ones((5,)))
    with pytest.raises(ValueError, match="last axis must be 5"):
        norm(mx.ones((3, 4)))


@pytest.mark.parametrize("layout", ["mul_ir", "ir_mul"])
def test_dropout_drops_whole_channels(layout):
    mx.random.seed(0)
    drop = nn.Dropout("20x0e+30x1o", 0.25, layout=layout)
    x = mx.ones((200, 110))
    out = np.array(o3.convert_layout(drop(x), "20x0e+30x1o", layout, "mul_ir"))
    assert set(np.unique(out)) == {0.0, np.float32(1 / 0.75)}
    vectors = out[:, 20:].reshape(200, 30, 3)
    assert np.array_equal(vectors.min(axis=-1), vectors.max(axis=-1))
    assert abs((vectors[..., 0] == 0).mean() - 0.25) < 0.02
    assert abs((out[:, :20] == 0).mean() - 0.25) < 0.03
    drop.eval()
    assert np.array_equal(np.array(drop(x)), np.ones((200, 110)))
    assert np.array_equal(np.array(nn.Dropout("2x0e", 1.0)(mx.ones((3, 2)))), np.zeros((3, 2)))
    with pytest.raises(ValueError, match="between 0 and 1"):
        nn.Dropout("2x0e", 1.5)


def test_extract():
    x = mx.arange(12.0)
    extract = nn.Extract("2x0e+3x1o+1x0o", ["3x1o", "1x0o+2x0e", ""], [(1,), (2, 0), ()])
    first, second, third = extract(x)
    assert np.array_equal(np.array(first), np.arange(2, 11))
    assert np.array_equal(np.array(second), [11, 0, 1])
    assert third.shape == (0,)
    single = nn.Extract("2x0e+3x1o", ["2x0e"], [(0,)], squeeze_out=True)
    assert np.array_equal(np.array(single(x[:11])), [0, 1])
    with pytest.raises(ValueError, match="are 3x1o, not 3x1e"):
        nn.Extract("2x0e+3x1o", ["3x1e"], [(1,)])
    with pytest.raises(ValueError, match="one instruction per output"):
        nn.Extract("2x0e+3x1o", ["3x1o"], [])


def test_extract_one_irrep_and_identity():
    vectors = nn.ExtractIr("2x0e+1x1o+1x0o+2x1o", "1o")
    assert vectors.irreps_out == o3.Irreps("1x1o+2x1o")
    x = mx.arange(12.0)
    assert np.array_equal(np.array(vectors(x)), [2, 3, 4, 6, 7, 8, 9, 10, 11])
    same = nn.Identity("2x0e+1x0e", "3x0e")
    assert np.array_equal(np.array(same(x[:3])), [0, 1, 2])
    with pytest.raises(ValueError, match="not the same irreps"):
        nn.Identity("2x0e", "3x0e")
