"""Activations on an emulated GPU against float64."""

from __future__ import annotations

from math import factorial

import mlx.core as mx
import numpy as np
import pytest
from emulated_gpu import assert_close, emulated_gpu, random_array

from mlpot.kernels import gpu
from mlpot.kernels.gpu import elementary

pytestmark = pytest.mark.emulated

FUNCTIONS = {
    "sigmoid": lambda z: 1 / (1 + np.exp(-z)),
    "silu": lambda z: z / (1 + np.exp(-z)),
    "tanh": np.tanh,
    "exp": np.exp,
    "sin": np.sin,
    "cos": np.cos,
}
CASES = [(f, k) for f in elementary.FUNCTIONS for k in range(elementary.LARGEST_ORDER + 1)]
CASES += [(f, 0) for f in elementary.PLAIN_FUNCTIONS]


def derivative(function: str, order: int, x: np.ndarray) -> np.ndarray:
    """From Cauchy's integral over a circle within the region of analyticity."""
    angles = 2 * np.pi * np.arange(64) / 64
    radius = 0.7
    values = FUNCTIONS[function](x[..., None] + radius * np.exp(1j * angles))
    return (
        factorial(order) / radius**order * np.mean(values * np.exp(-1j * order * angles), -1).real
    )


@pytest.mark.parametrize(("function", "order"), CASES)
def test_values(function, order):
    x = mx.concatenate([3.0 * random_array((251,)), mx.array([0.0, -30.0, 12.0, -12.0])])
    with emulated_gpu() as device:
        found = gpu.activation(function, order, x)
    assert_close(found, derivative(function, order, np.array(x, np.float64)), 1e-6)
    assert device.kernels == [f"{function}_{order}"]


@pytest.mark.parametrize("order", range(1, elementary.LARGEST_ORDER + 1))
@pytest.mark.parametrize("function", elementary.FUNCTIONS)
def test_relative_accuracy_where_derivatives_are_small(function, order):
    x = mx.array([6.0, -6.0, 8.0, -8.0])
    with emulated_gpu():
        found = np.array(gpu.activation(function, order, x), np.float64)
    wanted = derivative(function, order, np.array(x, np.float64))
    assert np.max(np.abs(found / wanted - 1)) < 3e-5


@pytest.mark.parametrize("shape", [(1,), (7,), (2, 3, 5), (256,), (257, 1)])
def test_shapes(shape):
    x = random_array(shape)
    with emulated_gpu():
        found = gpu.activation("silu", 1, x)
    assert_close(found, derivative("silu", 1, np.array(x, np.float64)), 1e-6)


@pytest.mark.parametrize(("dtype", "tolerance"), [(mx.float16, 1e-3), (mx.bfloat16, 8e-3)])
def test_short_number_types(dtype, tolerance):
    x = random_array((33,), dtype)
    with emulated_gpu():
        found = gpu.activation("silu", 2, x)
    assert found.dtype == dtype
    wanted = derivative("silu", 2, np.array(x.astype(mx.float32), np.float64))
    assert_close(found, wanted, tolerance)


@pytest.mark.parametrize(
    ("function", "order", "x", "reason"),
    [
        ("erf", 0, mx.zeros((3,)), "erf has no kernel"),
        ("silu", elementary.LARGEST_ORDER + 1, mx.zeros((3,)), "derivatives of order 4"),
        ("exp", 1, mx.zeros((3,)), "derivatives of order 1 (the kernels of exp end at 0)"),
        ("silu", 0, mx.zeros((0, 2)), "an array is empty"),
        ("silu", 0, mx.array(1.0), "a number, not an array"),
        ("silu", 0, mx.zeros((3,), mx.int32), "is not one of"),
        ("silu", elementary.LARGEST_ORDER, mx.zeros((3,)), None),
    ],
)
def test_refusals(function, order, x, reason):
    with emulated_gpu():
        found = gpu.activation_refusal(function, order, x)
    assert found is None if reason is None else reason in (found or "")


def test_float64_stays_on_the_cpu():
    x = mx.zeros((3,), mx.float64)
    with emulated_gpu():
        assert "float64 is not one of" in (gpu.activation_refusal("silu", 0, x) or "")


def test_without_gpu_nothing_is_offered():
    if gpu.running_dialect() is None:
        assert gpu.activation_refusal("silu", 0, mx.zeros((3,))) == "there is no GPU"
        assert gpu.offers(lambda: None) == ()
    with emulated_gpu():
        ((name, check),) = gpu.offers(lambda: "why")
        assert (name, check()) == ("metal", "why")
