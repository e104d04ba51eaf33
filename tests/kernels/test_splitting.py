"""Pieces of an array: values, every derivative, and what MLX's own split cannot do."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from seeds import generator

from mlpot import models, o3
from mlpot.kernels import EdgeIndex
from mlpot.kernels.splitting import split


def test_pieces_are_slices():
    x = mx.array(np.arange(24.0).reshape(2, 3, 4))
    found = split(x, [1, 2], axis=1)
    np.testing.assert_array_equal(np.array(found[0]), np.array(x[:, :1]))
    np.testing.assert_array_equal(np.array(found[1]), np.array(x[:, 1:]))
    np.testing.assert_array_equal(np.array(split(x, [4])[0]), np.array(x))


@pytest.mark.parametrize("widths", [[1, 1], [3, 2], [4, 0], []])
def test_wrong_widths(widths):
    with pytest.raises(ValueError, match="do not cut an axis of size 4"):
        split(mx.ones((2, 4)), widths)


def cubes(x: mx.array) -> mx.array:
    a, b, c = split(mx.square(x), [2, 1, 3])
    return (a * a * b).sum() + (c * c * c).sum()


def test_every_nesting_of_derivatives():
    rng = generator()
    x, u, v = (mx.array(rng.normal(size=(3, 6)), dtype=mx.float32) for _ in range(3))

    def plain(x):
        s = mx.square(x)
        return (s[:, :2] ** 2 * s[:, 2:3]).sum() + (s[:, 3:] ** 3).sum()

    def forward_over_reverse(f):
        return mx.jvp(mx.grad(f), [x], [v])[1][0]

    def reverse_over_reverse(f):
        return mx.grad(lambda x: (mx.grad(f)(x) * v).sum())(x)

    def reverse_over_forward(f):
        return mx.grad(lambda x: mx.jvp(f, [x], [v])[1][0])(x)

    def third(f):
        return mx.jvp(lambda x: mx.jvp(mx.grad(f), [x], [v])[1][0], [x], [u])[1][0]

    for nesting in (forward_over_reverse, reverse_over_reverse, reverse_over_forward, third):
        expected = np.array(nesting(plain))
        np.testing.assert_allclose(
            np.array(nesting(cubes)), expected, atol=1e-5 * np.abs(expected).max()
        )
    many = mx.vmap(lambda v: mx.jvp(mx.grad(cubes), [x], [v])[1][0])(mx.stack([u, v]))
    np.testing.assert_allclose(
        np.array(many[1]), np.array(forward_over_reverse(cubes)), rtol=1e-5, atol=1e-5
    )


def test_second_derivatives_of_message_passing_compile():
    """With ``mx.split`` in the layers, MLX 0.32.4 fails here."""
    mx.random.seed(0)
    edges = EdgeIndex.from_pairs([1, 2, 0], [0, 1, 2], 3)
    hidden = "2x0o+2x0e+2x1o+2x1e"
    network = models.MessagePassing(["1x0e", hidden, "1x0e"], "0e", "0e+1o", [3, 4], 2.0)
    ones = mx.ones((3, 1))
    r, v = mx.random.normal((3, 3)), mx.ones((3, 3))
    mx.eval(network.parameters(), edges.arrays(), ones, r, v)

    def energy(r):
        harmonics = o3.spherical_harmonics([0, 1], r, normalize=True)
        return network.on_edges(ones, ones, edges, harmonics, r).sum()

    def product(r, v):
        return mx.jvp(mx.grad(energy), [r], [v])[1][0]

    expected = np.array(product(r, v))
    np.testing.assert_allclose(
        np.array(mx.compile(product)(r, v)), expected, atol=1e-5 * np.abs(expected).max()
    )
