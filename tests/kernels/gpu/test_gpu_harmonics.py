"""Harmonics and their derivatives on an emulated GPU against plain MLX in float64."""

from __future__ import annotations

from itertools import combinations

import mlx.core as mx
import numpy as np
import pytest
from emulated_gpu import assert_close, emulated_gpu, random_array, to_float64

from mlpot import kernels, o3
from mlpot.kernels.gpu import harmonics
from mlpot.o3.solid_harmonics import _form, _gpu_kernels, solid_harmonics

pytestmark = pytest.mark.emulated

TARGETS = [t for n in (1, 2, 3) for t in combinations(harmonics.ROLES, n)]


def in_float64(function, *arrays):
    with kernels.use("reference"):
        found = function(*(to_float64(a) for a in arrays))
        mx.eval(found)
    return found


@pytest.mark.parametrize(
    ("lmax", "n"), [(0, 3), (1, 1), (2, 2), (3, 130), (4, 7), (harmonics.LARGEST_DEGREE, 5)]
)
def test_values(lmax, n):
    x = random_array((n, 3))
    with emulated_gpu() as device:
        found = solid_harmonics(lmax, x)
    assert_close(found, in_float64(lambda v: solid_harmonics(lmax, v), x), 1e-6)
    assert device.kernels == [f"harmonics_{lmax}"]


@pytest.mark.parametrize("targets", TARGETS, ids="".join)
@pytest.mark.parametrize(("lmax", "n"), [(1, 2), (2, 33), (4, 9)])
def test_gradients_of_the_form(lmax, n, targets):
    dim = (lmax + 1) ** 2
    shapes = {"y": (n, dim), "c": (n, dim), "t": (n, 3)}
    arrays = {role: random_array(shape, seed=len(role)) for role, shape in shapes.items()}
    needed = {r: a for r, a in arrays.items() if len(targets) > 1 or r not in targets}
    with emulated_gpu():
        found = _gpu_kernels(lmax).gradients(targets, needed)
    for target, gradient in zip(targets, found, strict=True):
        others = [r for r in harmonics.ROLES if r != target]
        wanted = in_float64(
            lambda a, b, role=target, names=others: _form(lmax, None).gradient(
                role, dict(zip(names, (a, b), strict=True))
            ),
            *(arrays[r] for r in others),
        )
        assert_close(gradient, wanted, 1e-6)


def test_gradients_of_the_largest_degree():
    lmax = harmonics.LARGEST_DEGREE
    c, x = random_array((3, (lmax + 1) ** 2)), random_array((3, 3))

    def pulled(x, c):
        return mx.vjp(lambda v: solid_harmonics(lmax, v), [x], [c])[1][0]

    with emulated_gpu():
        found = pulled(x, c)
    assert_close(found, in_float64(pulled, x, c), 1e-6)


def energy(x):
    y = solid_harmonics(3, x)
    return (y * y * y).sum()


def reverse_over_reverse(x, v):
    return mx.grad(lambda q: (mx.grad(energy)(q) * v).sum())(x)


# Reverse over forward is not among them: MLX drops the graph of what is evaluated there, and the
# emulator needs the numbers at once. The rules are the same as those of plain MLX.
DERIVATIVES = {
    "reverse": lambda x, v: mx.grad(energy)(x),
    "forward": lambda x, v: mx.jvp(energy, [x], [v])[1][0],
    "forward over reverse": lambda x, v: mx.jvp(mx.grad(energy), [x], [v])[1][0],
    "reverse over reverse": reverse_over_reverse,
    "third": lambda x, v: mx.grad(lambda q: (reverse_over_reverse(q, v) * v).sum())(x),
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives(name):
    x, v = random_array((5, 3)), random_array((5, 3), seed=1)
    with emulated_gpu() as device:
        found = DERIVATIVES[name](x, v)
        mx.eval(found)
    assert_close(found, in_float64(DERIVATIVES[name], x, v), 2e-6)
    assert all(name.startswith("harmonics_3") for name in device.kernels)


@pytest.mark.parametrize(("dtype", "tolerance"), [(mx.float16, 2e-3), (mx.bfloat16, 1e-2)])
def test_short_number_types(dtype, tolerance):
    x = random_array((11, 3), dtype)
    with emulated_gpu():
        found = solid_harmonics(2, x)
    assert found.dtype == dtype
    assert_close(found, in_float64(lambda v: solid_harmonics(2, v), x), tolerance)


def test_zero_vectors():
    x = mx.zeros((2, 3))
    with emulated_gpu():
        y, gradient = solid_harmonics(2, x), mx.grad(lambda q: solid_harmonics(2, q).sum())(x)
        mx.eval(y, gradient)
    assert np.array(y).tolist() == [[1] + 8 * [0]] * 2
    assert_close(gradient, np.full((2, 3), np.sqrt(3)), 1e-6)


def test_refusals():
    x = mx.zeros((2, 3))
    with emulated_gpu():
        assert harmonics.harmonics_refusal(harmonics.LARGEST_DEGREE, x) is None
        found = harmonics.harmonics_refusal(harmonics.LARGEST_DEGREE + 1, x)
        assert "harmonics of degree 12 (the kernels end at 11)" in (found or "")
        assert harmonics.harmonics_refusal(2, mx.zeros((0, 3))) == "an array is empty"


@pytest.mark.parametrize("use_custom_kernel", [None, True, False])
def test_switch_holds_for_derivatives(use_custom_kernel):
    x = random_array((2, 3))

    def energy(q):
        return (solid_harmonics(2, q, use_custom_kernel) ** 3).sum()

    def hvp(q):
        return mx.jvp(mx.grad(energy), [q], [q])[1][0]

    with emulated_gpu() as device:
        found = hvp(x)
        mx.eval(found)
    assert_close(
        found, in_float64(lambda q: mx.jvp(mx.grad(plain_energy), [q], [q])[1][0], x), 2e-6
    )
    assert bool(device.kernels) == (use_custom_kernel is not False)


def plain_energy(q):
    return (solid_harmonics(2, q, False) ** 3).sum()


def test_what_is_refused_runs_in_plain_mlx():
    x = random_array((2, 3))
    with emulated_gpu() as device, kernels.forced(False):
        found = solid_harmonics(2, x)
    assert device.kernels == []
    assert_close(found, in_float64(lambda v: solid_harmonics(2, v), x), 1e-6)


@pytest.mark.parametrize("use_custom_kernel", [None, True, False])
def test_switch_of_the_public_function(use_custom_kernel):
    x = random_array((4, 3))

    def function(q):
        return o3.spherical_harmonics([2, 1], q, True, "norm", use_custom_kernel)

    with emulated_gpu() as device:
        found = function(x)
        mx.eval(found)
    with kernels.use("reference"):
        wanted = o3.spherical_harmonics([2, 1], to_float64(x), True, "norm")
    assert_close(found, wanted, 1e-6)
    assert device.kernels == ([] if use_custom_kernel is False else ["direction_0", "harmonics_2"])


def test_kernels_that_there_are_not_cannot_be_forced():
    x = random_array((2, 3))
    lmax = harmonics.LARGEST_DEGREE + 1
    with emulated_gpu(), pytest.raises(ValueError, match="harmonics of degree 12"):
        o3.spherical_harmonics(lmax, x, True, use_custom_kernel=True)
    with emulated_gpu() as device:
        assert o3.spherical_harmonics(lmax, x, True).shape == (2, 2 * lmax + 1)
    assert device.kernels == ["direction_0"]
