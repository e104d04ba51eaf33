"""Every nesting of derivatives to third order, in all arguments at once, kernels and plain MLX."""

from __future__ import annotations

from itertools import pairwise

import mlx.core as mx
import numpy as np
import pytest
from nestings import check_nestings
from seeds import generator

from mlpot import kernels

BACKENDS = ("reference", "auto")
N_NODES, N_EDGES = 4, 9


def convolution(rng):
    """Two blocks of x, one of them read by two paths, and edges in any order of senders."""
    paths = tuple(
        kernels.ConvolutionPath(*numbers, coefficients=rng.normal(size=(d1, d2, d3)))
        for numbers, d1, d2, d3 in (
            ((0, 3, 1, 0, 1, 0, 0, 3, 1, 3), 1, 1, 1),
            ((0, 3, 1, 1, 3, 3, 3, 3, 3, 3), 1, 3, 3),
            ((3, 2, 3, 1, 3, 6, 12, 2, 1, 2), 3, 3, 1),
        )
    )
    spec = kernels.ConvolutionSpec(9, 4, 8, 14, paths)
    receivers = np.sort(rng.integers(0, N_NODES, N_EDGES))
    edges = kernels.EdgeIndex.from_pairs(rng.integers(0, N_NODES, N_EDGES), receivers, N_NODES)
    return lambda x, y, w: kernels.convolution(spec, x, y, w, edges)


@pytest.mark.parametrize("backend", BACKENDS)
def test_convolution(backend):
    rng = generator()
    function = convolution(rng)
    shapes = ((N_NODES, 9), (N_EDGES, 4), (N_EDGES, 8))
    ends = np.cumsum([np.prod(shape) for shape in shapes])

    def of_numbers(numbers):
        pieces = [numbers[first:last] for first, last in pairwise([0, *ends])]
        arguments = (p.reshape(s) for p, s in zip(pieces, shapes, strict=True))
        return mx.tanh(function(*arguments))  # no polynomial of third degree

    with kernels.use(backend):
        check_nestings(of_numbers, 0.5 * rng.normal(size=ends[-1]))


@pytest.mark.parametrize("backend", BACKENDS)
def test_sums_of_segments_and_gathered_rows(backend):
    rng = generator()
    index = mx.array(rng.integers(0, N_NODES, N_EDGES))

    def function(rows):
        sums = kernels.scatter_sum(mx.tanh(rows), index, N_NODES)
        return kernels.gather(sums, index) * mx.tanh(rows * rows)

    with kernels.use(backend):
        check_nestings(function, rng.normal(size=(N_EDGES, 3)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_compiled_products_are_the_same(backend):
    """The jvp of a gradient, traced by mx.compile and replayed with other numbers."""
    rng = generator()
    function = convolution(rng)

    def product(x, y, w, v):
        def gradient(a):
            return mx.grad(lambda b: mx.sum(function(b, y * y, w) ** 3))(a)

        return mx.jvp(gradient, [x], [v])[1][0]

    compiled = mx.compile(product)
    with mx.stream(mx.cpu), kernels.use(backend):
        for _ in range(2):
            shapes = ((N_NODES, 9), (N_EDGES, 4), (N_EDGES, 8), (N_NODES, 9))
            given = [mx.array(rng.normal(size=shape), dtype=mx.float64) for shape in shapes]
            plain, traced = np.array(product(*given)), np.array(compiled(*given))
            assert np.abs(plain).max() > 1e-3
            assert np.abs(plain - traced).max() < 1e-13 * np.abs(plain).max()
