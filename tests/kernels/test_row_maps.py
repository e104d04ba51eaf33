"""Maps of single rows: gates, powers within intervals, lengths and directions of vectors."""

from __future__ import annotations

import copy
import itertools
import pickle

import mlx.core as mx
import numpy as np
import pytest
from nestings import check_nestings

from mlpot import kernels

GATE = kernels.GateSpec(
    dim_x=5 + 1 + 3 + 4 + 9 + 20,
    dim_out=5 + 1 + 9 + 20,
    groups=(
        kernels.GateGroup("silu", 1.7, 5, 0, 0),
        kernels.GateGroup(None, 1.0, 1, 5, 5),
        kernels.GateGroup(
            "tanh", 0.9, 3, 6, None, tuple((13 + 3 * m, 6 + 3 * m) for m in range(3))
        ),
        kernels.GateGroup(
            "sigmoid", 1.2, 4, 9, None, tuple((22 + 4 * m, 15 + 4 * m) for m in range(5))
        ),
    ),
)
INTERVALS = kernels.IntervalSpec(
    4.0, [0.0, 1.5], [3, 5], np.array([0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5]), np.full(8, 0.5)
)
RNG = np.random.default_rng(3)


def gate(x: mx.array) -> mx.array:
    return kernels.gate(GATE, x)


def powers(x: mx.array) -> mx.array:
    return kernels.interval_powers(INTERVALS, x, kernels.locate(INTERVALS, x))


MAPS = {
    "gate": (gate, RNG.normal(size=(3, GATE.dim_x))),
    "powers": (powers, np.array([0.2, 1.2, 1.8, 3.3, 4.7])),
    "lengths": (kernels.lengths, RNG.normal(size=(4, 3))),
    "directions": (kernels.directions, RNG.normal(size=(4, 3))),
}


@pytest.mark.parametrize("use_custom_kernel", [None, False])
@pytest.mark.parametrize("name", MAPS)
def test_all_nestings_of_derivatives(name, use_custom_kernel):
    function, x = MAPS[name]
    with kernels.forced(use_custom_kernel):
        check_nestings(function, x, step=1e-3, tolerance=2e-6)


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("nesting", ["ffff", "rfff", "ffrr", "rrrr"])
def test_fourth_derivatives_are_right(name, nesting):
    function, x = MAPS[name]
    rng = np.random.default_rng(5)
    with mx.stream(mx.cpu):
        point = mx.array(x, dtype=mx.float64)
        along = [mx.array(rng.normal(size=x.shape), dtype=mx.float64) for _ in range(4)]
        cotangent = mx.array(rng.normal(size=function(point).shape), dtype=mx.float64)

        def derivative(f, mode, a):
            if mode == "f":
                return lambda y: mx.jvp(f, [y], [a])[1][0]
            return lambda y: mx.sum(mx.grad(f)(y) * a)

        def number(y):
            return mx.sum(function(y) * cotangent)

        third = number
        for a in along[:3]:
            third = derivative(third, "r", a)
        found = number
        for mode, a in zip(nesting, along, strict=True):
            found = derivative(found, mode, a)
        h = 1e-4
        expected = (third(point + h * along[3]) - third(point - h * along[3])) / (2 * h)
        expected, value = expected.item(), found(point).item()
    assert value == pytest.approx(expected, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("name", MAPS)
def test_float32_agrees_with_float64(name):
    function, x = MAPS[name]
    v = np.random.default_rng(1).normal(size=x.shape)

    def values(dtype):
        point, direction = mx.array(x, dtype=dtype), mx.array(v, dtype=dtype)

        def product(y):
            return mx.jvp(mx.grad(lambda z: mx.sum(function(z) ** 3)), [y], [direction])[1][0]

        return np.array(function(point)), np.array(product(point))

    for single, double in zip(values(mx.float32), values(mx.float64), strict=True):
        np.testing.assert_allclose(single, double, rtol=0, atol=2e-6 * np.abs(double).max())


def test_gate_is_what_its_groups_say():
    x = mx.array(RNG.normal(size=(7, GATE.dim_x)), dtype=mx.float64)
    a, out = np.array(x), np.array(gate(x))
    silu = 1.7 * a[:, :5] / (1 + np.exp(-a[:, :5]))
    tanh = 0.9 * np.tanh(a[:, 6:9])[:, None] * a[:, 13:22].reshape(7, 3, 3)
    sigmoid = 1.2 / (1 + np.exp(-a[:, 9:13]))[:, None] * a[:, 22:].reshape(7, 5, 4)
    expected = np.concatenate(
        [silu, a[:, 5:6], tanh.reshape(7, -1), sigmoid.reshape(7, -1)], axis=1
    )
    np.testing.assert_allclose(out, expected, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ((kernels.GateGroup("silu", 1.0, 2, 0, 0),), "each of the 3 columns of the input once"),
        ((kernels.GateGroup("relu", 1.0, 3, 0, 0),), "'relu'"),
        (
            (kernels.GateGroup("silu", 1.0, 3, 0, 0), kernels.GateGroup("silu", 1.0, 1, 0, 0)),
            "once",
        ),
    ],
)
def test_gates_refuse_wrong_groups(groups, message):
    with pytest.raises(ValueError, match=message):
        kernels.GateSpec(3, 3, groups)


def test_gates_refuse_a_wrong_width():
    with pytest.raises(ValueError, match=r"\(2, 3\).*\(n, 42\)"):
        gate(mx.zeros((2, 3)))


@pytest.mark.parametrize("backend", ["native", "reference"])
def test_scalars_that_go_nowhere_have_no_gradient(backend):
    groups = (kernels.GateGroup("silu", 1.0, 1, 0, None), kernels.GateGroup("tanh", 1.0, 2, 1, 0))
    spec = kernels.GateSpec(3, 2, groups)
    with kernels.use(backend):
        gradient = np.array(mx.grad(lambda x: mx.sum(kernels.gate(spec, x)))(mx.ones((2, 3))))
    np.testing.assert_allclose(gradient, [[0, *[1 - np.tanh(1.0) ** 2] * 2]] * 2, rtol=1e-6)


@pytest.mark.parametrize("n", [0, 1])
def test_few_rows(n):
    assert gate(mx.ones((n, GATE.dim_x))).shape == (n, GATE.dim_out)
    assert powers(mx.ones((n,))).shape == (n, 6)
    assert kernels.lengths(mx.ones((n, 3))).shape == (n,)
    assert kernels.directions(mx.ones((n, 3))).shape == (n, 3)


@pytest.mark.parametrize("use_custom_kernel", [None, False])
def test_places_in_intervals(use_custom_kernel):
    r = mx.array([0.0, 0.6, 1.49, 1.5, 1.75, 3.99, 4.0, 9.0, -0.1], dtype=mx.float64)
    kinds = mx.array([0, 1, 2, 0, 1, 2, 0, 1, 2], dtype=mx.int32)
    with kernels.forced(use_custom_kernel):
        rows = np.array(kernels.locate(INTERVALS, r))
        of_kinds = np.array(kernels.locate(INTERVALS, r, kinds))
        found = np.array(powers(r))
    np.testing.assert_array_equal(rows // 6, [0, 1, 2, 3, 3, 7, 7, 7, 0])
    np.testing.assert_array_equal(of_kinds - rows, 6 * 8 * np.array(kinds))
    t = np.array([0.0, 0.2, 0.98, 0.0, 0.5, 0.98])
    np.testing.assert_allclose(found[:6], t[:, None] ** np.arange(6), atol=1e-14)
    assert (found[6:8] == 0).all()


@pytest.mark.parametrize("use_custom_kernel", [None, False])
def test_short_vectors_have_no_direction_and_no_derivatives(use_custom_kernel):
    v = mx.array([[0.0, 0.0, 0.0], [1e-13, 0.0, 0.0], [0.0, 3e-5, 4e-5]], dtype=mx.float64)
    along = mx.array(np.ones((3, 3)), dtype=mx.float64)
    with kernels.forced(use_custom_kernel):
        np.testing.assert_allclose(np.array(kernels.lengths(v)), [1e-12, 1e-12, 5e-5], rtol=1e-14)
        np.testing.assert_allclose(
            np.array(kernels.directions(v)), [[0, 0, 0], [0, 0, 0], [0, 0.6, 0.8]], rtol=1e-14
        )
        for f in (kernels.lengths, kernels.directions):
            derivative = f
            for _ in range(3):
                derivative = lambda y, d=derivative: mx.jvp(d, [y], [along])[1][0]  # noqa: E731
                value = np.array(derivative(v))
                assert np.isfinite(value).all()
                assert (value[:2] == 0).all()
                assert (value[2] != 0).any()


def test_two_runs_and_any_number_of_threads_give_the_same_bits():
    x = mx.array(np.random.default_rng(0).normal(size=(3001, GATE.dim_x)), dtype=mx.float32)
    threads = kernels.native.num_threads()
    found = []
    try:
        for n in (1, 2, 2):
            kernels.native.set_num_threads(n)
            gradient = mx.grad(lambda y: mx.sum(gate(y) ** 2))(x)
            found.append((np.array(gate(x)), np.array(gradient)))
    finally:
        kernels.native.set_num_threads(max(threads, 1))
    for one, other in itertools.pairwise(found):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_specifications_can_be_copied_after_use():
    x = mx.array(RNG.normal(size=(2, GATE.dim_x)))
    expected = np.array(gate(x))
    for twin in (copy.deepcopy(GATE), pickle.loads(pickle.dumps(GATE))):
        np.testing.assert_array_equal(np.array(kernels.gate(twin, x)), expected)
    np.array(powers(mx.ones((2,))))
    twin = pickle.loads(pickle.dumps(INTERVALS))
    assert twin.n_intervals == 8
