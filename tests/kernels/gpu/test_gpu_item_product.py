"""Tensor products of items on an emulated GPU against plain MLX in float64."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from emulated_gpu import assert_close, emulated_gpu, random_array, to_float64

from mlpot import kernels, o3
from mlpot.kernels.gpu import item_product
from mlpot.kernels.item_product_spec import ItemBlock, ItemPath, ItemProductSpec

pytestmark = pytest.mark.emulated

IRREPS_IN = "2x0e + 2x1o"
MUL_OUT = {"uvw": 3, "uvu": 2, "uvv": 2, "uuw": 3, "uuu": 2, "uvuv": 4, "uvu<v": 1, "u<vw": 3}


def product_of(mode: str, weighted: bool, shared: bool, layout: str, switch: bool | None):
    mul = MUL_OUT[mode]
    paths = [(0, 0, 0), (1, 1, 0), (1, 0, 1)] if "<" not in mode else [(0, 0, 0), (1, 1, 0)]
    instructions = [(*path, mode, weighted, 1.0 + k) for k, path in enumerate(paths)]
    return o3.TensorProduct(
        *(IRREPS_IN, IRREPS_IN, f"{mul}x0e + {mul}x1o", instructions),
        internal_weights=False,
        shared_weights=shared,
        layout=layout,
        use_custom_kernel=switch,
    )


def arguments(product, shared: bool, n: int, dtype=mx.float32) -> list[mx.array]:
    shapes = [(n, product.irreps_in1.dim), (n, product.irreps_in2.dim)]
    if product.weight_numel:
        shapes.append((product.weight_numel,) if shared else (n, product.weight_numel))
    return [random_array(shape, dtype, seed=i) for i, shape in enumerate(shapes)]


def gradients(product, arrays):
    def energy(*a):
        return (product(*a) ** 2).sum()

    return mx.grad(energy, argnums=tuple(range(len(arrays))))(*arrays)


CASES = [
    (mode, weighted, shared)
    for mode in MUL_OUT
    for weighted, shared in ((True, True), (True, False), (False, True))
    if weighted or mode in ("uvu", "uvv", "uuu", "uvuv", "uvu<v")
]


@pytest.mark.parametrize(("mode", "weighted", "shared"), CASES)
def test_products_and_their_gradients(mode, weighted, shared):
    product = product_of(mode, weighted, shared, "ir_mul", True)
    plain = product_of(mode, weighted, shared, "ir_mul", False)
    arrays = arguments(product, shared, 5)
    with emulated_gpu() as device:
        found = [product(*arrays), *gradients(product, arrays)]
        mx.eval(found)
    exact = [to_float64(a) for a in arrays]
    with mx.stream(mx.cpu):
        wanted = [plain(*exact), *gradients(plain, exact)]
    for one, other in zip(found, wanted, strict=True):
        assert_close(one, other, 2e-6)
    assert device.kernels
    assert all(name.startswith("item_product") for name in device.kernels)


def test_layout_of_e3nn_and_many_items():
    product = product_of("uvu", True, True, "mul_ir", True)
    plain = product_of("uvu", True, True, "mul_ir", False)
    arrays = arguments(product, True, 150)
    with emulated_gpu():
        found = gradients(product, arrays)
        mx.eval(found)
    with mx.stream(mx.cpu):
        wanted = gradients(plain, [to_float64(a) for a in arrays])
    for one, other in zip(found, wanted, strict=True):
        assert_close(one, other, 2e-6)


def test_second_order():
    product = product_of("uvu", True, False, "ir_mul", True)
    plain = product_of("uvu", True, False, "ir_mul", False)
    x, y, w = arguments(product, False, 3)

    def hvp(module, *a):
        gradient = mx.grad(lambda q: (module(q, *a[1:]) ** 3).sum())
        return mx.jvp(gradient, [a[0]], [a[0]])[1][0]

    with emulated_gpu():
        found = hvp(product, x, y, w)
        mx.eval(found)
    with mx.stream(mx.cpu):
        wanted = hvp(plain, *(to_float64(a) for a in (x, y, w)))
    assert_close(found, wanted, 1e-5)


@pytest.mark.parametrize(("dtype", "tolerance"), [(mx.float16, 3e-3), (mx.bfloat16, 2e-2)])
def test_short_number_types(dtype, tolerance):
    product = product_of("uvw", True, True, "ir_mul", True)
    plain = product_of("uvw", True, True, "ir_mul", False)
    arrays = arguments(product, True, 4, dtype)
    with emulated_gpu():
        found = product(*arrays)
    assert found.dtype == dtype
    with mx.stream(mx.cpu):
        assert_close(found, plain(*(to_float64(a) for a in arrays)), tolerance)


@pytest.mark.parametrize("extra", [0, 1])
def test_number_of_terms_decides(monkeypatch, extra):
    """Both ways give the same; more items than the limit go to plain MLX."""
    product = product_of("uvu", True, True, "ir_mul", None)
    arrays = arguments(product, True, 4 + extra)
    n_terms = item_product._n_terms(product._items._whole.product(None).spec)
    monkeypatch.setattr(item_product, "MOST_TERMS_OF_ITEMS", 4 * n_terms)
    kernels.clear_report()
    with emulated_gpu() as device:
        mx.eval(product(*arrays))
    assert device.kernels == ([] if extra else ["item_product_g"])
    if extra:
        reasons = dict(kernels.report()[0].refusals)
        wanted = f"{5 * n_terms} terms of all items (up to {4 * n_terms} kernels are faster)"
        assert reasons["metal"] == wanted


def test_weights_between_all_channels_are_left_to_matrix_products():
    product = product_of("uvw", True, True, "ir_mul", None)
    arrays = arguments(product, True, 4)
    kernels.clear_report()
    with emulated_gpu() as device:
        mx.eval(product(*arrays))
    assert device.kernels == []
    reasons = dict(kernels.report()[0].refusals)
    assert "matrix products" in reasons["metal"]


def test_too_many_terms(monkeypatch):
    product = product_of("uvu", True, True, "ir_mul", True)
    arrays = arguments(product, True, 4)
    n_terms = item_product._n_terms(product._items._whole.product(True).spec)
    monkeypatch.setattr(item_product, "MOST_TERMS", n_terms)
    with emulated_gpu() as device:
        mx.eval(product(*arrays))
    assert device.kernels == ["item_product_g"]
    monkeypatch.setattr(item_product, "MOST_TERMS", n_terms - 1)
    with emulated_gpu(), pytest.raises(ValueError, match=f"{n_terms} terms are more than"):
        product(*arrays)


def test_no_terms():
    block = ItemBlock(0, 1, 1, 1, 1)
    path = ItemPath(block, block, block, "uuu", "none", 0, np.zeros((1, 1, 1)))
    spec = ItemProductSpec(1, 1, 1, 0, (path,))
    arrays = [mx.ones((2, 1)), mx.ones((2, 1))]
    with emulated_gpu():
        assert item_product.item_product_refusal(spec, "g", True, arrays) == "no terms"
