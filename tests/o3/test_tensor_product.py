"""Equivariance, weights, batch axes and errors of tensor products."""

from __future__ import annotations

import copy
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from algebra import numbers, rotation
from hypothesis import given, settings
from hypothesis import strategies as st

from mlpot import kernels, o3
from mlpot.o3.layout import check_layout

MODES = ("uvw", "uvu", "uvv", "uuw", "uuu", "uvuv", "uvu<v", "u<vw")


@pytest.fixture(autouse=True)
def _on_the_cpu():
    with mx.stream(mx.cpu):
        yield


def close(a, b, tolerance=1e-12):
    a, b = np.array(a), np.array(b)
    return a.shape == b.shape and np.abs(a - b).max(initial=0) <= tolerance * max(
        1.0, np.abs(b).max(initial=0)
    )


def turn(x, irreps, R):
    return x @ o3.Irreps(irreps).D_from_matrix(R).T


irreps_strategy = st.lists(
    st.tuples(st.integers(0, 3), st.tuples(st.integers(0, 3), st.sampled_from([-1, 1]))),
    min_size=1,
    max_size=3,
).map(o3.Irreps)
improper = st.booleans()
seeds = st.integers(0, 2**31)


def one_instruction(mode, mul1, mul2, ir1, ir2, choice):
    """A product with one path of the mode."""
    mul2 = mul1 if mode in ("uuw", "uuu", "uvu<v", "u<vw") else mul2
    pairs = mul1 * (mul1 - 1) // 2
    mul = {"uvu": mul1, "uvv": mul2, "uuu": mul1, "uvuv": mul1 * mul2, "uvu<v": pairs}
    outs = list(o3.Irrep(*ir1) * o3.Irrep(*ir2))
    return o3.TensorProduct(
        o3.Irreps([(mul1, ir1)]),
        o3.Irreps([(mul2, ir2)]),
        o3.Irreps([(mul.get(mode, 2), outs[choice % len(outs)])]),
        [(0, 0, 0, mode, True)],
    )


@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=15)
@given(
    muls=st.tuples(st.integers(1, 4), st.integers(1, 3)),
    irs=st.tuples(*[st.tuples(st.integers(0, 3), st.sampled_from([-1, 1]))] * 2),
    choice=st.integers(0, 6),
    seed=seeds,
    improper=improper,
)
def test_every_mode_is_equivariant(mode, muls, irs, choice, seed, improper):
    tp = one_instruction(mode, *muls, *irs, choice)
    tp.set_dtype(mx.float64)
    x, y = numbers(seed, 2, tp.irreps_in1.dim), numbers(seed + 1, 2, tp.irreps_in2.dim)
    R = rotation(seed, improper)
    turned = tp(turn(x, tp.irreps_in1, R), turn(y, tp.irreps_in2, R))
    assert close(turned, turn(tp(x, y), tp.irreps_out, R))


@settings(max_examples=25)
@given(a=irreps_strategy, b=irreps_strategy, out=irreps_strategy, seed=seeds, improper=improper)
def test_fully_connected_product_is_equivariant(a, b, out, seed, improper):
    tp = o3.FullyConnectedTensorProduct(a, b, out)
    tp.set_dtype(mx.float64)
    x, y, R = numbers(seed, 2, a.dim), numbers(seed + 1, 2, b.dim), rotation(seed, improper)
    assert close(tp(turn(x, a, R), turn(y, b, R)), turn(tp(x, y), out, R))


@settings(max_examples=15)
@given(a=irreps_strategy, b=irreps_strategy, seed=seeds, improper=improper)
def test_full_product_is_equivariant(a, b, seed, improper):
    tp = o3.FullTensorProduct(a, b)
    x, y, R = numbers(seed, 2, a.dim), numbers(seed + 1, 2, b.dim), rotation(seed, improper)
    assert close(tp(turn(x, a, R), turn(y, b, R)), turn(tp(x, y), tp.irreps_out, R))


@settings(max_examples=15)
@given(a=irreps_strategy, seed=seeds, improper=improper)
def test_elementwise_product_is_equivariant(a, seed, improper):
    b = o3.Irreps([(a.num_irreps, (1, -1))])
    tp = o3.ElementwiseTensorProduct(a, b)
    x, y, R = numbers(seed, 2, a.dim), numbers(seed + 1, 2, b.dim), rotation(seed, improper)
    assert close(tp(turn(x, a, R), turn(y, b, R)), turn(tp(x, y), tp.irreps_out, R))


@settings(max_examples=15)
@given(a=irreps_strategy, weighted=st.booleans(), seed=seeds, improper=improper)
def test_square_is_equivariant(a, weighted, seed, improper):
    tp = o3.TensorSquare(a, "2x0e+1x1o+1x1e+2x2e" if weighted else None)
    tp.set_dtype(mx.float64)
    x, R = numbers(seed, 2, a.dim), rotation(seed, improper)
    assert close(tp(turn(x, a, R)), turn(tp(x), tp.irreps_out, R))


def test_square_has_the_products_of_its_channels():
    square = o3.TensorSquare("3x0e", irrep_normalization="none")
    x = numbers(0, 4, 3)
    a, b, c = (x[:, i : i + 1] for i in range(3))
    wanted = mx.concatenate([a * b, a * c, b * c, x * x], axis=1)
    assert square.irreps_out == o3.Irreps("3x0e+3x0e")
    assert close(square(x), wanted)


@pytest.mark.parametrize(("normalization", "norm2"), [("component", None), ("norm", 1.0)])
def test_output_has_unit_variance(normalization, norm2):
    irreps = "8x0e+8x1o+8x2e"
    tp = o3.FullyConnectedTensorProduct(
        irreps, "4x0e+2x1o", "64x0e+64x1o+64x2e", irrep_normalization=normalization
    )

    def draw(seed, irreps):
        blocks = []
        for i, (mul, ir) in enumerate(o3.Irreps(irreps)):
            block = np.random.default_rng([seed, i]).standard_normal((200, mul, ir.dim))
            if norm2:
                block /= np.linalg.norm(block, axis=-1, keepdims=True)
            blocks.append(block.reshape(200, -1))
        return mx.array(np.concatenate(blocks, axis=1), dtype=mx.float32)

    mx.random.seed(0)
    out = np.array(tp(draw(0, irreps), draw(1, "4x0e+2x1o")))
    for block, s in zip(tp.irreps_out, tp.irreps_out.slices(), strict=True):
        size = out[:, s].reshape(200, block.mul, -1) ** 2
        found = size.sum(-1).mean() if norm2 else size.mean()
        assert 0.75 < found < 1.3, block


def test_right_is_the_map_of_the_first_input():
    tp = o3.FullyConnectedTensorProduct("2x0e+2x1o", "1x0e+2x1o", "2x0e+1x1o+1x2e")
    tp.set_dtype(mx.float64)
    x, y = numbers(0, 5, 8), numbers(1, 5, 7)
    assert close((x[:, None] @ tp.right(y))[:, 0], tp(x, y))
    weights = numbers(2, 5, tp.weight_numel)
    own = o3.FullyConnectedTensorProduct(
        "2x0e+2x1o", "1x0e+2x1o", "2x0e+1x1o+1x2e", shared_weights=False
    )
    assert close((x[:, None] @ own.right(y, weights))[:, 0], own(x, y, weights))


def test_shared_weights_stay_compact_and_have_the_gradient_of_an_expanded_twin():
    blocks = ("3x0e+2x1o", "2x0e+1x1o", "4x0e+3x1o+2x2e")
    shared = o3.FullyConnectedTensorProduct(*blocks, internal_weights=False)
    twin = o3.FullyConnectedTensorProduct(*blocks, shared_weights=False)
    n = 40
    x, y, w = numbers(0, n, 9), numbers(1, n, 5), numbers(2, shared.weight_numel)
    v = numbers(3, n, shared.irreps_out.dim)
    expanded = mx.broadcast_to(w, (n, w.size))
    compact = mx.grad(lambda w: mx.sum(shared(x, y, w) * v))(w)
    each = mx.grad(lambda w: mx.sum(twin(x, y, w) * v))(expanded)
    assert compact.shape == w.shape
    assert close(compact, each.sum(axis=0))


def test_shared_weights_take_no_memory_per_item():
    tp = o3.FullyConnectedTensorProduct("64x0e", "8x0e", "64x0e")
    n = 2000
    x, y = numbers(0, n, 64, dtype=mx.float32), numbers(1, n, 8, dtype=mx.float32)
    mx.eval(x, y, tp.parameters())

    def peak(f):
        mx.clear_cache()
        mx.reset_peak_memory()
        before = mx.get_active_memory()
        mx.eval(f())
        return mx.get_peak_memory() - before

    expanded = n * tp.weight_numel * 4
    assert peak(lambda: tp(x, y)) < expanded / 10
    gradient = mx.grad(lambda w: tp(x, y, w).sum())
    assert peak(lambda: gradient(tp.weight)) < expanded / 10


def test_ones_are_a_linear_map():
    tp = o3.FullyConnectedTensorProduct("2x0e+3x1o", "4x0e", "5x0e+2x1o")
    tp.set_dtype(mx.float64)
    x = numbers(0, 6, 11)
    assert close(tp(x, None), tp(x, mx.ones((6, 4), dtype=mx.float64)))
    each = o3.FullyConnectedTensorProduct("2x0e+3x1o", "4x0e", "5x0e", shared_weights=False)
    w = numbers(1, 6, each.weight_numel)
    assert close(each(x, None, w), each(x, mx.ones((6, 4), dtype=mx.float64), w))
    with pytest.raises(ValueError, match="stands for ones"):
        o3.FullyConnectedTensorProduct("0e", "1o", "1o")(mx.ones((2, 1)), None)


def test_batch_axes_broadcast():
    tp = o3.FullyConnectedTensorProduct("2x1o", "1x0e+1x1o", "2x0e+1x1o")
    tp.set_dtype(mx.float64)
    x, y = numbers(0, 3, 1, 6), numbers(1, 4, 4)
    out = tp(x, y)
    assert out.shape == (3, 4, 5)
    assert close(out[1, 2], tp(x[1, 0], y[2]))
    with pytest.raises(ValueError, match="do not broadcast"):
        tp(numbers(0, 3, 6), numbers(1, 4, 4))


def test_weight_views_are_the_weights_of_the_instructions():
    instructions = [(0, 0, 0, "uvu", False), (0, 0, 1, "uvw", True), (1, 0, 2, "uvu", True)]
    tp = o3.TensorProduct("2x0e+3x1o", "1x0e", "2x0e+4x0e+3x1o", instructions)
    views = list(tp.weight_views(yield_instruction=True))
    assert [(k, ins.i_out, w.shape) for k, ins, w in views] == [
        (1, 1, (2, 1, 4)),
        (2, 2, (3, 1)),
    ]
    assert np.array_equal(
        np.concatenate([np.array(w).ravel() for w in tp.weight_views()]), np.array(tp.weight)
    )
    assert close(tp.weight_view_for_instruction(2), views[1][2], 0)
    batch = tp.weight_view_for_instruction(1, numbers(0, 7, tp.weight_numel))
    assert batch.shape == (7, 2, 1, 4)
    with pytest.raises(ValueError, match="has no weights"):
        tp.weight_view_for_instruction(0)


@pytest.mark.parametrize("n", [0, 1])
def test_no_items_and_empty_irreps(n):
    tp = o3.FullyConnectedTensorProduct("2x0e+0x1o", "1x0e+0x1e", "3x0e+0x2e+2x1o")
    out = tp(mx.ones((n, 2)), mx.ones((n, 1)))
    assert out.shape == (n, 9)
    assert np.isfinite(np.array(out)).all()
    assert np.array_equal(np.array(tp.output_mask), [1, 1, 1, 0, 0, 0, 0, 0, 0])
    gradient = mx.grad(lambda x: tp(x, mx.ones((n, 1))).sum())(mx.ones((n, 2)))
    assert gradient.shape == (n, 2)
    assert np.isfinite(np.array(gradient)).all()
    empty = o3.FullyConnectedTensorProduct("", "1x0e", "2x0e")
    assert np.array_equal(np.array(empty(mx.ones((n, 0)), mx.ones((n, 1)))), np.zeros((n, 2)))
    assert o3.FullTensorProduct("", "1x1o").irreps_out.dim == 0
    assert o3.TensorSquare("0x1o")(mx.ones((n, 0))).shape == (n, 0)


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        ((0, 0, 0, "uvx", True), "connection mode"),
        ((0, 0, 0, "uvw", False), "always has weights"),
        ((0, 0, 1, "uvw", True), "does not contain"),
        ((0, 0, 0, "uuu", True), "equal multiplicities"),
        ((0, 0, 0, "uvv", True), "gives multiplicity 2"),
        ((0, 3, 0, "uvw", True), "i_in2 is 3"),
        ((0, 0, 0, "uvw", True, -1.0), "path weight"),
        ((0, 0, 0, "uvw"), "is not"),
    ],
)
def test_bad_instructions_are_named(instruction, message):
    with pytest.raises(ValueError, match=message):
        o3.TensorProduct("3x0e", "2x0e", "3x0e+1x1o", [instruction])


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="in1_var has 2"):
        o3.TensorProduct("3x0e", "2x0e", "3x0e", [], in1_var=[1.0, 2.0])
    with pytest.raises(ValueError, match="needs shared_weights"):
        o3.FullyConnectedTensorProduct(
            "0e", "0e", "0e", shared_weights=False, internal_weights=True
        )
    with pytest.raises(ValueError, match="equal numbers"):
        o3.ElementwiseTensorProduct("3x0e", "2x0e")
    with pytest.raises(ValueError, match="layout"):
        check_layout("flat")
    with pytest.raises(ValueError, match="different orders"):
        o3.FullTensorProduct("2x1o+1x1o", "0e", layout="ir_mul")
    tp = o3.FullyConnectedTensorProduct("2x0e", "0e", "0e", internal_weights=False)
    with pytest.raises(ValueError, match="weight is missing"):
        tp(mx.ones((1, 2)), mx.ones((1, 1)))
    with pytest.raises(ValueError, match="must be \\(2,\\)"):
        tp(mx.ones((1, 2)), mx.ones((1, 1)), mx.ones((3,)))
    with pytest.raises(ValueError, match="last axis must be 2"):
        tp(mx.ones((1, 3)), mx.ones((1, 1)), mx.ones((2,)))


def test_paths_with_and_without_weights_in_one_product():
    product = o3.TensorProduct(
        "3x0e+2x1e",
        "3x1e+1x1e",
        "3x1e+2x1e",
        [(0, 0, 0, "uvu", True), (1, 1, 1, "uvu", False)],
        internal_weights=False,
        use_custom_kernel=True,
    )
    x, y, w = numbers(0, 4, 9), numbers(1, 4, 12), numbers(2, product.weight_numel)

    def slopes(function):
        gradient = mx.grad(lambda *a: mx.sum(function(*a) ** 2), argnums=[0, 1, 2])
        second = mx.grad(lambda *a: sum(mx.sum(g**2) for g in gradient(*a)), argnums=[0, 1, 2])
        return [function(x, y, w), *gradient(x, y, w), *second(x, y, w)]

    for one, other in zip(slopes(product), slopes(product.differentiable_arrays), strict=True):
        assert np.abs(np.array(one - other)).max() < 1e-11 * max(1.0, np.abs(np.array(other)).max())


@pytest.mark.parametrize("use", [True, False, None])
def test_the_switch_of_the_classes(use):
    x, y = numbers(0, 3, 8), numbers(1, 3, 8)
    for make in (o3.FullTensorProduct, o3.ElementwiseTensorProduct):
        product = make("2x0e+2x1o", "2x0e+2x1o", use_custom_kernel=use)
        kernels.clear_report()
        found = product(x, y)
        ran = {c.backend for c in kernels.report() if c.primitive == "tensor_product"}
        assert ran == {"reference" if use is False else "native"}
        plain = product.differentiable_arrays(x, y)
        assert np.abs(np.array(found - plain)).max() < 1e-13
        tangent = mx.jvp(lambda a, p=product: p(a, y), [x], [x])[1][0]
        assert np.abs(np.array(tangent - plain)).max() < 1e-13


@pytest.mark.parametrize("scalars", ["2x0e", "1x0e+1x1o"])
def test_the_product_in_plain_mlx_can_be_exported(scalars, tmp_path):
    product = o3.FullyConnectedTensorProduct("2x0e+2x1o", scalars, "3x0e+2x1o")
    x, y = numbers(0, 3, 8), numbers(1, 3, product.irreps_in2.dim)
    path = str(tmp_path / "product.mlxfn")
    mx.export_function(path, product.differentiable_arrays, x, y)
    restored: Any = mx.import_function(path)
    (found,) = restored(x, y)
    assert np.abs(np.array(found - product(x, y))).max() < 1e-6


def test_copies_are_independent_after_use():
    product = o3.FullyConnectedTensorProduct("2x0e+1x1o", "1x0e+1x1o", "3x1o")
    product.set_dtype(mx.float64)
    x, y = numbers(0, 3, 5), numbers(1, 3, 4)
    before = product(x, y)
    twin = copy.deepcopy(product)
    twin.weight = 2.0 * twin.weight
    assert np.abs(np.array(twin(x, y) - 2.0 * before)).max() < 1e-13
    assert np.abs(np.array(product(x, y) - before)).max() == 0.0
