"""Gates, mixing, interval powers, lengths and directions on an emulated GPU against float64."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from emulated_gpu import assert_close, emulated_gpu, random_array, to_float64

from mlpot import kernels
from mlpot.kernels import gpu

pytestmark = pytest.mark.emulated

GATE = kernels.GateSpec(
    dim_x=3 + 1 + 2 + 35 + 6,
    dim_out=3 + 1 + 35 * 1 + 6,
    groups=(
        kernels.GateGroup("tanh", 1.3, 3, 0, 0),
        kernels.GateGroup(None, 1.0, 1, 3, 3),
        kernels.GateGroup(
            "sigmoid", 0.9, 2, 4, None, tuple((6 + 2 * m, 4 + 2 * m) for m in range(3))
        ),
        kernels.GateGroup("silu", 1.2, 35, 12, 10),
    ),
)
INTERVALS = kernels.IntervalSpec(
    4.0, [0.0, 1.5], [3, 5], np.array([0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5]), np.full(8, 0.5)
)
ORDERS = [("out", 0), ("out", 1), ("out", 2), ("out", 3), *(("adjoint", k) for k in (1, 2, 3))]


def reference(function, arrays):
    """In float64 by plain MLX."""
    with mx.stream(mx.cpu), kernels.use("reference"):
        value = function([to_float64(a) for a in arrays])
        mx.eval(value)
    return value


@pytest.mark.parametrize("n", [1, 9])
@pytest.mark.parametrize(("kind", "order"), ORDERS)
def test_gate(kind, order, n):
    n_directions = order if kind == "out" else order - 1
    arrays = [random_array((n, GATE.dim_x))]
    arrays += [random_array((n, GATE.dim_out))] if kind == "adjoint" else []
    arrays += [random_array((n, GATE.dim_x), seed=1 + i) for i in range(n_directions)]
    with emulated_gpu() as device:
        found = gpu.gate(GATE, kind, order, arrays)
    assert device.kernels == [f"gate_{kind}_{order}"]

    def by_mlx(a):
        x, *others = a
        if kind == "adjoint":
            g, *others = others
        f = lambda y: kernels.gate(GATE, y)  # noqa: E731
        for direction in others:
            f = lambda y, f=f, d=direction: mx.jvp(f, [y], [d])[1][0]  # noqa: E731
        if kind == "out":
            return f(x)
        return mx.grad(lambda y: mx.sum(f(y) * g))(x)

    assert_close(found, reference(by_mlx, arrays), 2e-6)


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
def test_gate_in_half_precision(dtype):
    x = random_array((4, GATE.dim_x), dtype)
    with emulated_gpu():
        found = gpu.gate(GATE, "out", 0, [x])
    assert found.dtype == dtype
    expected = reference(lambda a: kernels.gate(GATE, a[0]), [x])
    assert_close(found, expected, 2e-3 if dtype == mx.float16 else 1.5e-2)


def test_gate_is_taken_by_the_dispatch_and_differentiated():
    x = random_array((5, GATE.dim_x))

    def number(y):
        return mx.sum(kernels.gate(GATE, y) ** 2)

    with emulated_gpu() as device:
        found = mx.grad(number)(x)
        mx.eval(found)
    assert device.kernels == ["gate_out_0", "gate_adjoint_1"]
    assert_close(found, reference(lambda a: mx.grad(number)(a[0]), [x]), 2e-6)


@pytest.mark.parametrize("n", [1, 5])
@pytest.mark.parametrize("scaled", ["some", "all"])
def test_mixing_and_its_derivatives(scaled, n):
    d = 37
    mixing = kernels.Mixing(np.arange(d) % 3 > 0 if scaled == "some" else np.ones(d))
    arrays = [random_array((n, d)), random_array((n, 1), seed=1), random_array((n, d), seed=2)]
    along = [random_array(tuple(a.shape), seed=3 + i) for i, a in enumerate(arrays)]

    def found(own, a, v):
        def number(*b):
            return mx.sum(mixing(*b) ** 2)

        gradient = mx.grad(number, argnums=(0, 1, 2))
        values, tangents = mx.jvp(lambda *b: gradient(*b), [own, a, v], along)
        return [mixing(own, a, v), *values, *tangents]

    with emulated_gpu() as device:
        results = found(*arrays)
        mx.eval(results)
    assert set(device.kernels) == {f"mixing_{k}" for k in ("added", "scaled0", "scaled1", "dot")}
    along = [to_float64(a) for a in along]
    for result, wanted in zip(results, reference(lambda a: found(*a), arrays), strict=True):
        assert_close(result, wanted, 2e-6)


@pytest.mark.parametrize("with_kinds", [False, True])
def test_locate(with_kinds):
    r = mx.array([0.0, 0.6, 1.4, 1.6, 1.75, 3.9, 4.0, 9.0], dtype=mx.float32)
    kinds = mx.array([0, 1, 2, 0, 1, 2, 0, 1], dtype=mx.int32) if with_kinds else None
    with emulated_gpu() as device:
        found = kernels.locate(INTERVALS, r, kinds)
    assert device.kernels == ["interval_locate"]
    with kernels.use("reference"):
        expected = kernels.locate(INTERVALS, r, kinds)
    np.testing.assert_array_equal(np.array(found), np.array(expected))


@pytest.mark.parametrize(("kind", "order"), ORDERS)
def test_interval_powers(kind, order):
    r = mx.array(np.linspace(0.1, 4.3, 11).astype(np.float32))
    rows = kernels.locate(INTERVALS, r)
    n_directions = order if kind == "out" else order - 1
    arrays = [r, *([random_array((11, 6))] if kind == "adjoint" else [])]
    arrays += [random_array((11,), seed=i) for i in range(n_directions)]
    with emulated_gpu() as device:
        found = gpu.interval_powers(INTERVALS, kind, order, arrays, rows)
    assert device.kernels == [f"interval_{kind}_{order}"]

    def by_mlx(a):
        x, *others = a
        if kind == "adjoint":
            g, *others = others
        f = lambda y: kernels.interval_powers(INTERVALS, y, rows)  # noqa: E731
        for direction in others:
            f = lambda y, f=f, d=direction: mx.jvp(f, [y], [d])[1][0]  # noqa: E731
        if kind == "out":
            return f(x)
        return mx.grad(lambda y: mx.sum(f(y) * g))(x)

    assert_close(found, reference(by_mlx, arrays), 2e-6)


@pytest.mark.parametrize(
    ("kind", "order"),
    [
        *(("direction", k) for k in range(4)),
        *(("length", k) for k in range(4)),
        *(("length_adjoint", k) for k in (1, 2, 3)),
    ],
)
def test_directions(kind, order):
    v = np.random.default_rng(2).normal(size=(9, 3)).astype(np.float32)
    v[3] = 0.0
    n_directions = order - 1 if kind == "length_adjoint" else order
    arrays = [mx.array(v), *([random_array((9,))] if kind == "length_adjoint" else [])]
    arrays += [random_array((9, 3), seed=i) for i in range(n_directions)]
    with emulated_gpu() as device:
        found = gpu.directions(kind, order, arrays)
    assert device.kernels == [f"{kind}_{order}"]

    def by_mlx(a):
        x, *others = a
        if kind == "length_adjoint":
            g, *others = others
        f = kernels.directions if kind == "direction" else kernels.lengths
        for direction in others:
            f = lambda y, f=f, d=direction: mx.jvp(f, [y], [d])[1][0]  # noqa: E731
        if kind != "length_adjoint":
            return f(x)
        return mx.grad(lambda y: mx.sum(f(y) * g))(x)

    assert_close(found, reference(by_mlx, arrays), 2e-6)


def test_refusals():
    x = random_array((3, GATE.dim_x))
    with emulated_gpu():
        assert gpu.gate_refusal(GATE, 3, [x]) is None
        assert "order 4" in str(gpu.gate_refusal(GATE, 4, [x]))
        assert gpu.interval_refusal(0, random_array((3,))) is None
        assert "order 4" in str(gpu.interval_refusal(4, random_array((3,))))
        assert gpu.directions_refusal([random_array((3, 3))]) is None
        assert "float64" in str(gpu.directions_refusal([to_float64(random_array((3, 3)))]))
