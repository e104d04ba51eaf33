"""The convolution family against an independent sum, and every nesting of its derivatives."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from mlpot import kernels

N_NODES, N_EDGES = 9, 60


def _path(rng, *numbers):
    d1, d2, d3 = numbers[2], numbers[4], numbers[8]
    return kernels.ConvolutionPath(*numbers, coefficients=rng.normal(size=(d1, d2, d3)))


@pytest.fixture
def case():
    """Two blocks of x (5 scalars, 4 vectors), four paths, random edges."""
    rng = np.random.default_rng(0)
    paths = (
        _path(rng, 0, 5, 1, 0, 1, 0, 0, 5, 1, 5),
        _path(rng, 0, 5, 1, 1, 3, 5, 5, 9, 3, 5),
        _path(rng, 5, 4, 3, 0, 1, 10, 10, 9, 3, 4),
        _path(rng, 5, 4, 3, 1, 3, 14, 32, 4, 1, 4),
    )
    spec = kernels.ConvolutionSpec(17, 4, 18, 36, paths)
    receivers = np.sort(rng.integers(0, N_NODES, N_EDGES))
    senders = rng.integers(0, N_NODES, N_EDGES)
    edges = kernels.EdgeIndex.from_pairs(senders, receivers, N_NODES)
    shapes = ((N_NODES, 17), (N_EDGES, 4), (N_EDGES, 18))
    arrays = [rng.normal(size=shape) for shape in shapes]
    return spec, edges, arrays


def _direct(spec, senders, receivers, x, y, w):
    out = np.zeros((len(x), spec.dim_out))
    for p in spec.paths:
        for e, (s, r) in enumerate(zip(senders, receivers, strict=True)):
            out[r][p.out_columns()] += np.einsum(
                "ic,j,c,ijk->kc",
                x[s][p.x_columns()],
                y[e, p.y_offset : p.y_offset + p.d2],
                w[e, p.w_offset : p.w_offset + p.mul],
                p.coefficients,
            )
    return out


@pytest.mark.parametrize("backend", ["reference", "auto"])
def test_values(case, backend):
    spec, edges, arrays = case
    wanted = _direct(spec, np.array(edges.senders), np.array(edges.receivers), *arrays)
    for dtype, tolerance in ((mx.float64, 1e-13), (mx.float32, 2e-6)):
        given = [mx.array(a, dtype=dtype) for a in arrays]
        with kernels.use(backend):
            got = np.array(kernels.convolution(spec, *given, edges))
        assert np.abs(got - wanted).max() < tolerance * np.abs(wanted).max()


@pytest.mark.parametrize("backend", ["reference", "auto"])
def test_every_nesting_of_derivatives(case, backend):
    spec, edges, arrays = case
    rng = np.random.default_rng(1)
    point = tuple(mx.array(a, dtype=mx.float64) for a in arrays)
    v = tuple(mx.array(rng.normal(size=a.shape), dtype=mx.float64) for a in arrays)

    def energy(x, y, w):
        first = kernels.convolution(spec, x, y, w, edges)
        second = kernels.convolution(spec, mx.tanh(first[:, :17]), y * y, w, edges)
        return (second * second * second).sum() + (first * first).sum()

    every = (0, 1, 2)
    gradient = mx.grad(energy, argnums=every)

    def along(*at):
        return sum((g * d).sum() for g, d in zip(gradient(*at), v, strict=True))

    with kernels.use(backend):
        forward = mx.jvp(lambda *a: gradient(*a), point, v)[1]
        reverse = mx.grad(along, argnums=every)(*point)
        mixed = mx.grad(lambda *b: mx.jvp(lambda *c: [energy(*c)], b, v)[1][0], argnums=every)(
            *point
        )
        h = 1e-5
        plus = gradient(*[p + h * d for p, d in zip(point, v, strict=True)])
        minus = gradient(*[p - h * d for p, d in zip(point, v, strict=True)])
        directions = mx.stack([v[0], point[0]])
        mapped = mx.vmap(
            lambda u: mx.jvp(lambda x: gradient(x, *point[1:])[0], [point[0]], [u])[1][0]
        )(directions)
        single = mx.jvp(lambda x: gradient(x, *point[1:])[0], [point[0]], [v[0]])[1][0]
        compiled = mx.compile(lambda *a: gradient(*a))(*point)
        plain = gradient(*point)
        mx.eval(forward, reverse, mixed, plus, minus, mapped, single, compiled, plain)
    for i in every:
        scale = np.abs(np.array(forward[i])).max()
        difference = (np.array(plus[i]) - np.array(minus[i])) / (2 * h)
        assert np.abs(np.array(reverse[i]) - np.array(forward[i])).max() < 1e-13 * scale
        assert np.abs(np.array(mixed[i]) - np.array(forward[i])).max() < 1e-13 * scale
        assert np.abs(difference - np.array(forward[i])).max() < 1e-7 * scale
        assert np.abs(np.array(compiled[i]) - np.array(plain[i])).max() < 1e-13 * scale
    assert np.abs(np.array(mapped[0]) - np.array(single)).max() < 1e-12 * scale


def test_third_order_agrees_with_differences(case):
    spec, edges, arrays = case
    x, y, w = (mx.array(a, dtype=mx.float64) for a in arrays)
    v = mx.array(np.random.default_rng(2).normal(size=y.shape), dtype=mx.float64)

    def energy(y):
        out = kernels.convolution(spec, x, y, w, edges)
        return mx.sum(out * out * out)

    def curvature(y):
        return (mx.jvp(mx.grad(energy), [y], [v])[1][0] * v).sum()

    third = np.array(mx.grad(curvature)(y))
    h = 1e-5
    probe = np.zeros(y.shape)
    probe[3, 2] = h
    step = mx.array(probe, dtype=mx.float64)
    difference = (curvature(y + step) - curvature(y - step)).item() / (2 * h)
    assert abs(third[3, 2] - difference) < 1e-6 * np.abs(third).max()


def test_no_edges_give_zero(case):
    spec = case[0]
    edges = kernels.EdgeIndex.from_pairs([], [], 3)
    out = kernels.convolution(spec, mx.ones((3, 17)), mx.zeros((0, 4)), mx.zeros((0, 18)), edges)
    assert out.shape == (3, 36)
    assert not np.array(out).any()


def test_wrong_widths_are_refused(case):
    spec, edges, _ = case
    with pytest.raises(ValueError, match="y has 5 columns, the convolution needs 4"):
        kernels.convolution(spec, mx.ones((9, 17)), mx.ones((60, 5)), mx.ones((60, 18)), edges)


@pytest.mark.parametrize("backend", ["reference", "auto"])
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"x": 8}, "x has 8 rows, there are 9 nodes"),
        ({"x": 10}, "x has 10 rows, there are 9 nodes"),
        ({"y": 59, "w": 59}, "y has 59 rows, there are 60 edges"),
        ({"y": 61, "w": 61}, "y has 61 rows, there are 60 edges"),
    ],
)
def test_every_node_and_every_edge_has_a_row(case, wrong, message, backend):
    spec, edges, _ = case
    rows = {"x": 9, "y": 60, "w": 60} | wrong
    columns = {"x": spec.dim_x, "y": spec.dim_y, "w": spec.n_weights}
    with kernels.use(backend), pytest.raises(ValueError, match=message):
        kernels.convolution(spec, *(mx.ones((rows[n], columns[n])) for n in "xyw"), edges)


def test_paths_must_cover_the_output():
    path = kernels.ConvolutionPath(0, 2, 1, 0, 1, 0, 0, 2, 1, 2, np.ones((1, 1, 1)))
    with pytest.raises(ValueError, match="3 output columns exactly once"):
        kernels.ConvolutionSpec(2, 1, 2, 3, (path,))


def test_unknown_backend_is_refused():
    with (
        pytest.raises(ValueError, match="choose one of auto, native, cuda, metal, reference"),
        kernels.use("gpu"),
    ):
        pass
