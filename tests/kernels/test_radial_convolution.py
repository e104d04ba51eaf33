"""The convolution with edge weights from a table, against the one with weights, and differences."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from seeds import generator

from mlpot import kernels
from mlpot.kernels import ConvolutionPath, ConvolutionSpec, EdgeIndex

N_NODES, N_EDGES, N_KNOTS = 7, 40, 5
EVERY = (0, 1, 2, 3)
NAMES = ("x", "y", "h", "table")


def _path(rng, *numbers):
    d1, d2, d3 = numbers[2], numbers[4], numbers[8]
    return ConvolutionPath(*numbers, coefficients=rng.normal(size=(d1, d2, d3)))


class Case:
    """Two blocks of x (5 scalars, 4 vectors), four paths, random edges and a table."""

    def __init__(self, with_rows: bool) -> None:
        rng = generator()
        paths = (
            _path(rng, 0, 5, 1, 0, 1, 0, 0, 5, 1, 5),
            _path(rng, 0, 5, 1, 1, 3, 5, 5, 9, 3, 5),
            _path(rng, 5, 4, 3, 0, 1, 10, 10, 9, 3, 4),
            _path(rng, 5, 4, 3, 1, 3, 14, 32, 4, 1, 4),
        )
        self.spec = ConvolutionSpec(17, 4, 18, 36, paths)
        receivers = np.sort(rng.integers(0, N_NODES - 1, N_EDGES))
        self.edges = EdgeIndex.from_pairs(rng.integers(0, N_NODES, N_EDGES), receivers, N_NODES)
        self.rows = None
        n_rows = 6
        if with_rows:
            n_rows = 3 * (N_KNOTS + 1)
            self.rows = mx.array((3 * rng.integers(0, N_KNOTS, N_EDGES)).astype(np.int32))
        shapes = ((N_NODES, 17), (N_EDGES, 4), (N_EDGES, 6), (n_rows, 18))
        self.host = [0.5 * rng.normal(size=shape) for shape in shapes]
        self.directions = [0.5 * rng.normal(size=shape) for shape in shapes]

    def weights(self) -> np.ndarray:
        h, table = self.host[2:]
        rows = np.zeros(N_EDGES, int) if self.rows is None else np.array(self.rows)
        return np.stack(
            [sum(h[e, m] * table[rows[e] + m] for m in range(6)) for e in range(N_EDGES)]
        )

    def point(self, dtype=mx.float64) -> Any:
        return [mx.array(a, dtype=dtype) for a in self.host]

    def fused(self, x, y, h, table) -> mx.array:
        return kernels.radial_convolution(self.spec, x, y, h, table, self.rows, self.edges)

    def composed(self, x, y, h, table) -> mx.array:
        w = kernels.edge_weights(h, table, self.rows)
        return kernels.convolution(self.spec, x, y, w, self.edges)

    def energy(self, convolution) -> Any:
        """A scalar in which every derivative to third order of every argument is nonzero."""

        def value(x, y, h, table):
            first = convolution(x, y, h, table)
            second = convolution(mx.tanh(first[:, :17]), y * y, h, table)
            return (second * second * second).sum() * 1e-3 + (first * first).sum()

        return value


@pytest.fixture(params=["rows", "dense"])
def case(request):
    return Case(request.param == "rows")


@pytest.fixture(params=["reference", "auto"])
def _backend(request):
    with kernels.use(request.param):
        yield


def close(a, b, tolerance: float) -> None:
    a, b = np.array(a), np.array(b)
    assert a.shape == b.shape
    assert np.abs(a - b).max() <= tolerance * np.abs(b).max()


def test_weights_are_sums_over_rows(case):
    want = case.weights()
    for dtype, tolerance in ((mx.float64, 1e-14), (mx.float32, 1e-6)):
        _, _, h, table = case.point(dtype)
        close(kernels.edge_weights(h, table, case.rows), want, tolerance)


@pytest.mark.usefixtures("_backend")
def test_values_are_those_of_the_convolution_with_weights(case):
    x, y = case.host[:2]
    with kernels.use("reference"):
        x, y, w = (mx.array(a, dtype=mx.float64) for a in (x, y, case.weights()))
        want = np.array(kernels.convolution(case.spec, x, y, w, case.edges))
    for dtype, tolerance in ((mx.float64, 1e-13), (mx.float32, 2e-6)):
        close(case.fused(*case.point(dtype)), want, tolerance)


@pytest.mark.usefixtures("_backend")
def test_gradients_are_those_of_the_composed_form(case):
    point = case.point()
    got = mx.grad(case.energy(case.fused), argnums=EVERY)(*point)
    want = mx.grad(case.energy(case.composed), argnums=EVERY)(*point)
    for g, w in zip(got, want, strict=True):
        close(g, w, 1e-12)


def difference(function, step: float = 2e-4) -> list[np.ndarray]:
    """Derivative at 0 of arrays that depend on a number, to fourth order in the step."""
    at = {k: [np.array(a) for a in function(k * step)] for k in (-2, -1, 1, 2)}
    return [
        (8 * (at[1][i] - at[-1][i]) - (at[2][i] - at[-2][i])) / (12 * step)
        for i in range(len(at[1]))
    ]


def _along(function, directions):
    """The scalar sum of gradients times directions, as a function of the point."""
    gradient = mx.grad(function, argnums=EVERY)

    def value(*at: Any) -> Any:
        return sum((g * d).sum() for g, d in zip(gradient(*at), directions, strict=True))

    return value


@pytest.mark.usefixtures("_backend")
def test_every_nesting_of_second_derivatives(case):
    point = case.point()
    v = [mx.array(d, dtype=mx.float64) for d in case.directions]
    energy = case.energy(case.fused)
    gradient: Any = mx.grad(energy, argnums=EVERY)
    slopes = difference(lambda t: gradient(*[p + t * d for p, d in zip(point, v, strict=True)]))

    def along_forward(*at: Any) -> mx.array:
        return mx.jvp(lambda *a: [energy(*a)], list(at), v)[1][0]

    ways: dict[str, Any] = {
        "forward over reverse": mx.jvp(gradient, point, v)[1],
        "reverse over reverse": mx.grad(_along(energy, v), argnums=EVERY)(*point),
        "reverse over forward": mx.grad(along_forward, argnums=EVERY)(*point),
    }
    for way in ways.values():
        for got, want in zip(way, slopes, strict=True):
            close(got, want, 1e-8)
    for way in ways.values():
        for got, want in zip(way, ways["forward over reverse"], strict=True):
            close(got, want, 1e-12)


@pytest.mark.parametrize("argument", EVERY, ids=NAMES)
@pytest.mark.usefixtures("_backend")
def test_derivatives_of_one_argument_alone(case, argument):
    """Rules must hold where the other arguments have no tangent."""
    point = case.point()
    v = mx.array(case.directions[argument], dtype=mx.float64)

    def energy(a: mx.array) -> mx.array:
        return case.energy(case.fused)(*point[:argument], a, *point[argument + 1 :])

    got = mx.jvp(mx.grad(energy), [point[argument]], [v])[1][0]
    (want,) = difference(lambda t: [mx.grad(energy)(point[argument] + t * v)])
    close(got, want, 1e-8)


@pytest.mark.usefixtures("_backend")
def test_third_derivatives_agree_with_differences_and_with_the_composed_form(case):
    point = case.point()
    v = [mx.array(d, dtype=mx.float64) for d in case.directions]

    def third(convolution):
        second = _along(_along(case.energy(convolution), v), v)
        return second, mx.grad(second, argnums=EVERY)(*point)

    second, got = third(case.fused)
    for g, w in zip(got, third(case.composed)[1], strict=True):
        close(g, w, 1e-11)
    forward = mx.jvp(lambda *a: [second(*a)], point, v)[1][0].item()
    (want,) = difference(lambda t: [second(*[p + t * d for p, d in zip(point, v, strict=True)])])
    assert abs(forward - want) < 1e-7 * abs(forward)
    total = sum((g * d).sum().item() for g, d in zip(got, v, strict=True))
    assert abs(total - forward) < 1e-11 * abs(forward)


@pytest.mark.usefixtures("_backend")
def test_vmap_over_hessian_vector_products_and_compile(case):
    point = case.point()
    gradient = mx.grad(case.energy(case.fused), argnums=EVERY)

    def hvp(u: mx.array) -> mx.array:
        return mx.jvp(lambda y: gradient(point[0], y, *point[2:])[1], [point[1]], [u])[1][0]

    rng = generator()
    batch = mx.array(rng.normal(size=(3, N_EDGES, 4)), dtype=mx.float64)
    mapped = mx.vmap(hvp)(batch)
    for i in range(3):
        close(mapped[i], hvp(batch[i]), 1e-13)
    mx.eval(point)
    compiled = mx.compile(lambda *a: gradient(*a))(*point)
    for c, g in zip(compiled, gradient(*point), strict=True):
        close(c, g, 1e-13)


def test_training_step_of_forces(case):
    """Parameters' gradient of a loss of forces: the table is a parameter, y and h geometry."""
    point = case.point()
    energies = [case.energy(f) for f in (case.fused, case.composed)]

    def loss(energy) -> Any:
        def of(x, table):
            forces = mx.grad(lambda r: energy(x, mx.sin(r[:, :4]), r * r, table))(point[2])
            return (forces * forces).sum()

        return mx.grad(of, argnums=(0, 1))(point[0], point[3])

    for g, w in zip(loss(energies[0]), loss(energies[1]), strict=True):
        close(g, w, 1e-11)


def test_adjoints_to_y_and_h_share_one_evaluation(case):
    kernels.clear_report()
    point = case.point(mx.float32)
    mx.eval(mx.grad(lambda *a: case.fused(*a).sum(), argnums=(1, 2))(*point))
    ran = {choice.primitive: choice.calls for choice in kernels.report()}
    assert ran["radial_convolution.y_h"] == 1
    assert "radial_convolution.y" not in ran and "radial_convolution.h" not in ran


def test_no_edges_give_zero(case):
    edges = EdgeIndex.from_pairs([], [], 3)
    rows = None if case.rows is None else mx.zeros((0,), dtype=mx.int32)
    table = case.point(mx.float32)[3]

    def out(table):
        x, y, h = mx.ones((3, 17)), mx.zeros((0, 4)), mx.zeros((0, 6))
        return kernels.radial_convolution(case.spec, x, y, h, table, rows, edges)

    assert out(table).shape == (3, 36)
    assert not np.array(out(table)).any()
    assert not np.array(mx.grad(lambda t: out(t).sum())(table)).any()


def test_arrays_that_do_not_belong_together_are_refused():
    case = Case(with_rows=True)
    x, y, h, table = case.point(mx.float32)
    spec, rows, edges = case.spec, case.rows, case.edges
    assert rows is not None
    with pytest.raises(ValueError, match="the table has 17 columns, the convolution needs 18"):
        kernels.radial_convolution(spec, x, y, h, table[:, :17], rows, edges)
    with pytest.raises(ValueError, match="h has 6 columns, the table 18 rows"):
        kernels.radial_convolution(spec, x, y, h, table, None, edges)
    with pytest.raises(ValueError, match="one int32 for each of the 40 rows"):
        kernels.edge_weights(h, table, rows[:-1])
    with pytest.raises(ValueError, match="one int32 for each of the 40 rows"):
        kernels.edge_weights(h, table, rows.astype(mx.int64))
    with pytest.raises(ValueError, match="there are 40 edges"):
        kernels.radial_convolution(spec, x, y[1:], h, table, rows, edges)
    with pytest.raises(ValueError, match=f"x has {x.shape[0] - 1} rows, there are"):
        kernels.radial_convolution(spec, x[1:], y, h, table, rows, edges)
    with pytest.raises(ValueError, match="the table only 5 rows"):
        kernels.edge_weights(h, table[:5], rows)
