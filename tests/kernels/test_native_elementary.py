"""The C++ elementary functions against numpy in extended precision."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from seeds import generator

from mlpot.kernels import native

PRECISIONS = {  # dtype, relative error, largest argument of exp
    "float32": (mx.float32, np.float32, 2.5e-7, 80.0),
    "float64": (mx.float64, np.float64, 5e-16, 700.0),
}


def logistic(x):
    return 1 / (1 + np.exp(-x))


def silu1(x):
    s, t = logistic(x), logistic(-x)
    return s * (1 + x * t)


def silu2(x):
    s, t = logistic(x), logistic(-x)
    return s * t * (2 + x * (t - s))


def silu3(x):
    s, t = logistic(x), logistic(-x)
    return s * t * (3 * (t - s) + x * (1 - 6 * s * t))


WANTED = {
    "exp": np.exp,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "sigmoid": logistic,
    "silu": lambda x: x * logistic(x),
    "silu1": silu1,
    "silu2": silu2,
    "silu3": silu3,
}
# These have roots: the error is relative to the sum of the absolute terms, products of several
# rounded factors.
FACTORS = 2.5
TERMS = {
    "silu1": lambda x: logistic(x) * (1 + abs(x) * logistic(-x)),
    "silu2": lambda x: logistic(x) * logistic(-x) * (2 + abs(x)),
    "silu3": lambda x: logistic(x) * logistic(-x) * (3 + 2 * abs(x)),
}


def run(name: str, x: np.ndarray, dtype) -> np.ndarray:
    with mx.stream(mx.cpu):
        return np.array(native.elementary(name, mx.array(x, dtype=dtype)))


def test_every_function_is_tested():
    assert tuple(WANTED) == native.ELEMENTARY_FUNCTIONS


@pytest.mark.parametrize("scale", [1e-4, 0.3, 3.0, 30.0])
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", WANTED)
def test_accuracy(name, precision, scale):
    dtype, numpy_type, bound, largest = PRECISIONS[precision]
    rng = generator()
    x = (rng.normal(size=20_011) * scale).clip(-largest, largest).astype(numpy_type)
    exact = x.astype(np.longdouble)
    want = WANTED[name](exact)
    size = FACTORS * TERMS[name](exact) if name in TERMS else np.abs(want)
    assert np.all(np.abs(run(name, x, dtype) - want) <= bound * size)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_derivatives_of_silu_are_each_others(precision):
    x = np.linspace(-6, 6, 101)
    h = 1e-4
    for order in range(3):
        low, high = f"silu{order or ''}", f"silu{order + 1}"
        slope = (run(low, x + h, mx.float64) - run(low, x - h, mx.float64)) / (2 * h)
        assert np.abs(slope - run(high, x, PRECISIONS[precision][0])).max() < 1e-6


@pytest.mark.parametrize("precision", PRECISIONS)
def test_limits(precision):
    dtype, _, _, largest = PRECISIONS[precision]
    inf, nan = np.inf, np.nan
    x = np.array([-inf, -1.1 * largest, 0.0, inf, nan])
    assert np.array_equal(run("exp", x[[0, 2, 3, 4]], dtype), [0, 1, inf, nan], equal_nan=True)
    assert np.array_equal(run("tanh", x, dtype), [-1, -1, 0, 1, nan], equal_nan=True)
    assert np.array_equal(run("sigmoid", x[[0, 2, 3, 4]], dtype), [0, 0.5, 1, nan], equal_nan=True)
    assert np.isnan(run("sin", x[[0, 3, 4]], dtype)).all()
    assert np.isnan(run("silu", x[[4]], dtype)).all()
    steep = run("exp", np.array([-largest * 1.25, largest * 1.25]), dtype)
    assert steep[0] < 1e-30 and steep[1] == inf


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", ["sin", "cos"])
def test_large_angles(name, precision):
    dtype, numpy_type, bound, _ = PRECISIONS[precision]
    rng = generator()
    x = np.concatenate([rng.normal(size=300) * s for s in (1.0, 1e3, 1e5, 1e8)])
    x = rng.permutation(x).astype(numpy_type)
    want = WANTED[name](x.astype(np.longdouble))
    got = run(name, x, dtype)
    assert np.abs(got - want).max() <= bound
    # A value does not depend on its neighbours in the array.
    small = x[np.abs(x) < 3]
    assert np.array_equal(run(name, small, dtype), got[np.abs(x) < 3])


@pytest.mark.parametrize("shape", [(), (0,), (1,), (5, 3), (2, 7, 11), (40_000, 3)])
def test_shapes_and_views(shape):
    rng = generator()
    x = rng.normal(size=shape)
    got = run("silu", x, mx.float64)
    assert got.shape == shape
    assert np.allclose(got, x * logistic(x), rtol=1e-14, atol=0)
    with mx.stream(mx.cpu):
        turned = native.elementary("silu", mx.array(x, dtype=mx.float64).T)
        assert np.array_equal(np.array(turned), got.T)


def test_an_argument_that_is_used_again_is_not_overwritten():
    x = mx.array([1.0, 2.0, 3.0])
    with mx.stream(mx.cpu):
        moved = x + 1
        both = mx.stack([native.elementary("exp", moved), moved])
        alone = native.elementary("exp", x + 1)
    assert np.array_equal(np.array(both[1]), [2, 3, 4])
    assert np.array_equal(np.array(both[0]), np.array(alone))


def test_same_bits_with_any_number_of_threads():
    x = generator().normal(size=200_003)
    before = native.num_threads()
    try:
        for name in WANTED:
            results = []
            for n in (1, 2, 3):
                native.set_num_threads(n)
                results.append(run(name, x, mx.float32).tobytes())
            assert results[0] == results[1] == results[2]
    finally:
        native.set_num_threads(before)


def test_works_under_compile_and_vmap():
    x = mx.array(generator().normal(size=(4, 6)).astype(np.float32))
    with mx.stream(mx.cpu):
        want = np.array(native.elementary("tanh", x) + 1)
        compiled = mx.compile(lambda a: native.elementary("tanh", a) + 1)
        assert np.array_equal(np.array(compiled(x)), want)
        mapped = mx.vmap(lambda a: native.elementary("tanh", a) + 1, in_axes=1, out_axes=1)(x)
        assert np.array_equal(np.array(mapped), want)


def test_unknown_names_and_types_are_refused():
    with mx.stream(mx.cpu):
        with pytest.raises(ValueError, match="named exq"):
            native.elementary("exq", mx.ones(3))
        with pytest.raises(ValueError, match="float32 and float64"):
            native.elementary("exp", mx.ones(3, dtype=mx.float16))
