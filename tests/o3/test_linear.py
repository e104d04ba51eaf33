"""Linear maps and norms: symmetry, merged blocks, weights, biases, errors."""

from __future__ import annotations

import copy

import mlx.core as mx
import numpy as np
import pytest
from algebra import close, numbers, rotation
from hypothesis import given, settings
from hypothesis import strategies as st

from mlpot import kernels, o3


@pytest.fixture(autouse=True)
def _on_the_cpu():
    with mx.stream(mx.cpu):
        yield


blocks = st.tuples(st.integers(0, 3), st.tuples(st.integers(0, 3), st.sampled_from([-1, 1])))
irreps_strategy = st.lists(blocks, min_size=1, max_size=4).map(o3.Irreps)


@settings(max_examples=30)
@given(a=irreps_strategy, b=irreps_strategy, seed=st.integers(0, 2**31), improper=st.booleans())
def test_linear_is_equivariant(a, b, seed, improper):
    linear = o3.Linear(a, a + b, biases=True)
    linear.set_dtype(mx.float64)
    if linear.bias_numel:
        linear.bias = numbers(seed, linear.bias_numel)
    x, R = numbers(seed + 1, 3, a.dim), rotation(seed, improper)
    turned = linear(x @ a.D_from_matrix(R).T)
    assert close(turned, linear(x) @ (a + b).D_from_matrix(R).T)


@settings(max_examples=20)
@given(a=irreps_strategy, seed=st.integers(0, 2**31), improper=st.booleans())
def test_norm_is_invariant(a, seed, improper):
    norm = o3.Norm(a)
    x, R = numbers(seed, 3, a.dim), rotation(seed, improper)
    assert norm(x).shape == (3, a.num_irreps)
    assert close(norm(x @ a.D_from_matrix(R).T), norm(x))
    assert close(o3.Norm(a, squared=True)(x), norm(x) ** 2)


def test_blocks_are_multiplied_by_their_views():
    linear = o3.Linear("2x0e+3x1o+1x0e", "4x0e+2x1o")
    linear.set_dtype(mx.float64)
    x = numbers(0, 5, 12)
    a, b, c = linear.weight_views()
    assert [w.shape for w in (a, b, c)] == [(2, 4), (3, 2), (1, 4)]
    scalars = (x[:, :2] @ a + x[:, 11:] @ c) / 3**0.5
    vectors = (x[:, 2:11].reshape(5, 3, 3).swapaxes(1, 2) @ b) / 3**0.5
    wanted = mx.concatenate([scalars, vectors.swapaxes(1, 2).reshape(5, 6)], axis=1)
    assert close(linear(x), wanted)
    assert close(linear.weight_view_for_instruction(1), b)


def test_shared_weights_have_the_gradient_of_an_expanded_twin():
    shared = o3.Linear("2x0e+3x1o", "4x0e+2x1o", internal_weights=False)
    twin = o3.Linear("2x0e+3x1o", "4x0e+2x1o", shared_weights=False)
    x, w = numbers(0, 7, 11), numbers(1, shared.weight_numel)
    v = numbers(2, 7, 10)
    compact = mx.grad(lambda w: mx.sum(shared(x, w) * v))(w)
    expanded = mx.broadcast_to(w, (7, w.size))
    each = mx.grad(lambda w: mx.sum(twin(x, w) * v))(expanded)
    assert compact.shape == w.shape
    assert close(compact, each.sum(axis=0))


def test_instructions_may_repeat_and_leave_blocks_out():
    linear = o3.Linear("2x0e+2x0e", "3x0e+1x1o+2x0e", instructions=[(0, 0), (0, 0)])
    linear.set_dtype(mx.float64)
    x = numbers(0, 4, 4)
    first, second = linear.weight_views()
    wanted = (x[:, :2] @ (first + second)) / 2
    assert close(linear(x), mx.concatenate([wanted, mx.zeros((4, 5), dtype=mx.float64)], axis=1))
    assert np.array_equal(np.array(linear.output_mask), [1, 1, 1, 0, 0, 0, 0, 0])


def test_norm_of_zero_has_zero_derivatives_of_every_order():
    norm = o3.Norm("2x0e+2x1o")
    x = mx.zeros((1, 8), dtype=mx.float64)
    x[0, 2] = 3.0

    def total(x):
        return norm(x).sum()

    assert close(norm(x), mx.array([[0.0, 0.0, 3.0, 0.0]], dtype=mx.float64))
    gradient = mx.grad(total)(x)
    wanted = mx.zeros((1, 8), dtype=mx.float64)
    wanted[0, 2] = 1.0
    assert close(gradient, wanted)
    second = mx.jvp(mx.grad(total), [x], [mx.ones_like(x)])[1][0]
    third = mx.grad(lambda x: mx.jvp(mx.grad(total), [x], [mx.ones_like(x)])[1][0].sum())(x)
    assert np.isfinite(np.array(second)).all()
    assert np.isfinite(np.array(third)).all()


@pytest.mark.parametrize("n", [0, 2])
def test_no_items_and_empty_irreps(n):
    linear = o3.Linear("0x1o+2x0e", "3x0e+1x1o+0x0e", biases=True)
    out = linear(mx.ones((n, 2)))
    assert out.shape == (n, 6)
    assert np.array_equal(np.array(out[:, 3:]), np.zeros((n, 3)))
    nothing = o3.Linear("", "2x0e+1x1o", biases=True)
    nothing.bias = mx.array([1.0, 2.0])
    wanted = np.tile([1.0, 2, 0, 0, 0], (n, 1))
    assert np.array_equal(np.array(nothing(mx.zeros((n, 0)))), wanted)
    assert o3.Linear("2x0e", "")(mx.ones((n, 2))).shape == (n, 0)
    assert o3.Norm("")(mx.zeros((n, 0))).shape == (n, 0)


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="only joins equal irreps"):
        o3.Linear("2x0e", "2x1o", instructions=[(0, 0)])
    with pytest.raises(ValueError, match="only 0e may have one"):
        o3.Linear("2x1o", "2x1o", biases=[True])
    with pytest.raises(ValueError, match="biases has 2 entries"):
        o3.Linear("2x0e", "2x0e", biases=[True, False])
    with pytest.raises(ValueError, match="give both or neither"):
        o3.Linear("2x0e", "2x0e", f_in=3)
    with pytest.raises(ValueError, match="path_normalization"):
        o3.Linear("2x0e", "2x0e", path_normalization="none")
    with pytest.raises(ValueError, match="must be f_in = 3"):
        o3.Linear("2x0e", "2x0e", f_in=3, f_out=1)(mx.ones((4, 2, 2)))
    with pytest.raises(ValueError, match="last axis must be 2"):
        o3.Linear("2x0e", "2x0e")(mx.ones((4, 3)))
    with pytest.raises(ValueError, match="different orders"):
        o3.Norm("2x1o+1x1o", layout="ir_mul")


def test_layout_is_converted_block_by_block():
    x = mx.arange(8.0)[None]
    swapped = o3.convert_layout(x, "2x0e+2x1o", "mul_ir", "ir_mul")
    assert np.array_equal(np.array(swapped[0]), [0, 1, 2, 5, 3, 6, 4, 7])
    back = o3.convert_layout(swapped, "2x0e+2x1o", "ir_mul", "mul_ir")
    assert np.array_equal(np.array(back), np.array(x))


@pytest.mark.parametrize("shared", [True, False])
def test_kernels_and_plain_mlx_agree_to_second_order(shared):
    a, b = o3.Irreps("7x0e+5x1o+3x2e+2x1o"), o3.Irreps("4x1o+1x0o+6x0e+2x2e")
    linear = o3.Linear(a, b, shared_weights=shared, internal_weights=False)
    x = numbers(0, 19, a.dim)
    w = numbers(1, *(() if shared else (19,)), linear.weight_numel)
    t = numbers(2, 19, a.dim)

    def value(x, w):
        return mx.sum(linear(x, w) ** 3)

    def slope(x, w):
        return mx.sum(mx.grad(value)(x, w) * t)

    found = {}
    for name in ("auto", "reference"):
        kernels.clear_report()
        with kernels.use(name):
            found[name] = [linear(x, w), *mx.grad(slope, argnums=[0, 1])(x, w)]
            found[name] += mx.jvp(lambda x: mx.grad(value)(x, w), [x], [t])[1]
            mx.eval(found[name])
        ran = {c.backend for c in kernels.report() if c.primitive == "linear"}
        assert ran == {"native" if name == "auto" else "reference"}
    for one, other in zip(found["auto"], found["reference"], strict=True):
        assert float(mx.max(mx.abs(one - other))) < 1e-12 * max(1.0, float(mx.max(mx.abs(other))))


def test_copies_are_independent_after_use():
    linear = o3.Linear("3x0e+2x1o", "4x1o+2x0e")
    linear.set_dtype(mx.float64)
    x = numbers(0, 5, 9)
    before = linear(x)
    twin = copy.deepcopy(linear)
    twin.weight = 2.0 * twin.weight
    assert close(twin(x), 2.0 * before)
    assert close(linear(x), before)
