"""Tensor products of items on the C++ kernels against sums written out in float64."""

from __future__ import annotations

import itertools
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from nestings import check_nestings

from mlpot import kernels
from mlpot.kernels import item_product_spec, native
from mlpot.kernels.item_product import ItemProduct
from mlpot.kernels.item_product_spec import ItemBlock, ItemPath, ItemProductSpec

MODES = ("uvw", "uvu", "uvv", "uuw", "uuu", "uvuv", "uvu<v", "u<vw")
TOLERANCE = {mx.float32: 2e-6, mx.float64: 1e-13}


def block(offset, dim, mul, component_major):
    return ItemBlock(offset, dim, mul, *((mul, 1) if component_major else (1, dim)))


def random_spec(mode, weighted, component_major=False, seed=0, muls=(6, 3, 5)) -> ItemProductSpec:
    """Two blocks of x and of y, three paths of which two share an output, some columns unused."""
    rng = np.random.default_rng(seed)
    u, v, w = muls
    if mode in ("uuw", "uuu") or "<" in mode:
        v = u
    pairs = u * (u - 1) // 2
    mul_out = {"uvw": w, "uvu": u, "uvv": v, "uuw": w if weighted else 1, "uuu": u}
    mul_out |= {"uvuv": u * v, "uvu<v": pairs, "u<vw": w}
    width = {"uvw": u * v * w, "uuw": u * w, "uuu": u, "uvu<v": pairs, "u<vw": pairs * w}
    weighting = "matrix" if mode in ("uvw", "uuw", "u<vw") else "channel"
    xs = block(2, 3, u, component_major), block(2 + 3 * u, 1, u, component_major)
    ys = block(0, 5, v, False), block(5 * v, 1, v, False)
    outs = (
        block(1, 3, mul_out[mode], component_major),
        block(1 + 3 * mul_out[mode], 7, mul_out[mode], component_major),
    )
    paths, n_weights = [], 0
    for x, y, out in ((xs[0], ys[0], outs[0]), (xs[0], ys[0], outs[1]), (xs[1], ys[1], outs[0])):
        c = rng.normal(size=(x.dim, y.dim, out.dim)) * (rng.random((x.dim, y.dim, out.dim)) < 0.6)
        how = weighting if weighted else "none"
        paths.append(ItemPath(x, y, out, mode, how, n_weights, c))
        n_weights += width.get(mode, u * v) if weighted else 0
    dims = 2 + 4 * u, 6 * v + 1, 10 * mul_out[mode] + 1
    return ItemProductSpec(*dims, n_weights, tuple(paths))


def columns(b: ItemBlock, channels) -> np.ndarray:
    return b.offset + np.arange(b.dim)[:, None] * b.stride + np.asarray(channels)[None] * b.step


def gradients(spec, arrays, shared) -> dict[str, np.ndarray]:
    """T's gradients to g, x, y, w, path by path."""
    x, y, w, g = (arrays[role] for role in "xywg")
    found = {k: np.zeros_like(a) for k, a in {"x": x, "y": y, "w": w, "g": g}.items()}
    for p in spec.paths:
        first, second, out = p.channels()
        to_x, to_y = columns(p.x, first), columns(p.y, second)
        xq, yq = x[:, to_x], y[:, to_y]
        weights = w if w.ndim == 2 else w[None]
        if p.weighting == "matrix":
            to_w = p.w_offset + np.arange(first.size * p.out.mul)
            to_g = columns(p.out, np.arange(p.out.mul))
            wq = weights[:, to_w].reshape(-1, first.size, p.out.mul)
            gq = np.einsum("nko,nqo->nkq", g[:, to_g], np.broadcast_to(wq, (len(x), *wq.shape[1:])))
        else:
            to_g = columns(p.out, out)
            wq = weights[:, p.w_offset + np.arange(first.size)] if w.size else np.ones((1, 1))
            gq = g[:, to_g] * wq[:, None, :]
        t = np.einsum("ijk,niq,njq->nkq", p.coefficients, xq, yq)
        if p.weighting == "matrix":
            result = np.einsum("nkq,nqo->nko", t, np.broadcast_to(wq, (len(x), *wq.shape[1:])))
            w_bar = np.einsum("nkq,nko->nqo", t, g[:, to_g]).reshape(len(x), -1)
        else:
            result = t * wq[:, None, :]
            to_w = p.w_offset + np.arange(first.size)
            w_bar = np.einsum("nkq,nkq->nq", t, g[:, to_g])
        x_bar = np.einsum("ijk,njq,nkq->niq", p.coefficients, yq, gq)
        y_bar = np.einsum("ijk,niq,nkq->njq", p.coefficients, xq, gq)
        for n in range(len(x)):
            np.add.at(found["g"][n], to_g, result[n])
            np.add.at(found["x"][n], to_x, x_bar[n])
            np.add.at(found["y"][n], to_y, y_bar[n])
            if w.size:
                np.add.at(found["w"] if shared else found["w"][n], to_w, w_bar[n])
    return found


def random_arrays(spec, n, shared, seed=1) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    lead = () if shared else (n,)
    shapes = {"x": (n, spec.dim_x), "y": (n, spec.dim_y)}
    shapes |= {"w": (*lead, spec.n_weights), "g": (n, spec.dim_out)}
    return {role: rng.normal(size=shape) for role, shape in shapes.items()}


def roles(spec, target):
    return [r for r in "xywg" if r != target and (r != "w" or spec.n_weights)]


def evaluate(spec, arrays, shared, dtype) -> dict[str, np.ndarray]:
    with mx.stream(mx.cpu):
        given = {role: mx.array(a, dtype=dtype) for role, a in arrays.items()}
        targets = [t for t in "gxyw" if t != "w" or spec.n_weights]
        return {
            t: np.array(native.item_product(spec, t, shared, [given[r] for r in roles(spec, t)]))
            for t in targets
        }


CASES = [
    (mode, weighted, shared, component_major)
    for mode, weighted, shared, component_major in itertools.product(
        MODES, (True, False), (True, False), (True, False)
    )
    if (weighted or shared) and (weighted or mode not in ("uvw", "u<vw"))
]


@pytest.mark.parametrize("dtype", [mx.float32, mx.float64], ids=["float32", "float64"])
@pytest.mark.parametrize(("mode", "weighted", "shared", "component_major"), CASES)
def test_every_gradient_of_every_mode(mode, weighted, shared, component_major, dtype):
    spec = random_spec(mode, weighted, component_major)
    for n in (1, 37):
        arrays = random_arrays(spec, n, shared)
        wanted = gradients(spec, arrays, shared)
        for target, found in evaluate(spec, arrays, shared, dtype).items():
            assert found.shape == wanted[target].shape
            error = np.abs(found - wanted[target]).max() / np.abs(wanted[target]).max()
            assert error < TOLERANCE[dtype], (target, n, error)


@pytest.mark.parametrize("muls", [(1, 1, 1), (33, 1, 2), (2, 70, 17)])
def test_any_number_of_channels(muls):
    for mode in ("uvw", "uvu", "uvuv"):
        spec = random_spec(mode, True, muls=muls)
        arrays = random_arrays(spec, 19, False)
        wanted = gradients(spec, arrays, False)
        for target, found in evaluate(spec, arrays, False, mx.float64).items():
            assert np.abs(found - wanted[target]).max() < 1e-13 * np.abs(wanted[target]).max()


@pytest.mark.parametrize("shared", [True, False])
def test_same_bits_in_two_runs_and_with_any_number_of_threads(shared):
    before = native.num_threads()
    try:
        for mode in ("uvw", "uvuv"):
            spec = random_spec(mode, True, muls=(16, 8, 16))
            arrays = random_arrays(spec, 700, shared)
            results = []
            for threads in (1, 1, 2, 3):
                native.set_num_threads(threads)
                results.append(evaluate(spec, arrays, shared, mx.float32))
            for other in results[1:]:
                for target, found in other.items():
                    assert np.array_equal(found, results[0][target]), target
    finally:
        native.set_num_threads(before)


def product_in_mlx(spec: ItemProductSpec):
    """The product in MLX's own operations, without what is special about a mode."""

    def product(x, y, w: Any = None):
        out = mx.zeros((x.shape[0], spec.dim_out), dtype=x.dtype)
        for p in spec.paths:
            first, second, third = p.channels()
            c = mx.array(p.coefficients, dtype=x.dtype)
            xq = mx.take(x, mx.array(columns(p.x, first)), axis=1)
            yq = mx.take(y, mx.array(columns(p.y, second)), axis=1)
            t = mx.einsum("ijk,niq,njq->nkq", c, xq, yq)
            width = first.size * (p.out.mul if p.weighting == "matrix" else 1)
            to = columns(p.out, third)
            if p.weighting == "matrix":
                wq = w[..., p.w_offset : p.w_offset + width]
                t = t @ wq.reshape(*wq.shape[:-1], first.size, p.out.mul)
                to = columns(p.out, np.arange(p.out.mul))
            elif p.weighting == "channel":
                t = t * w[..., None, p.w_offset : p.w_offset + width]
            place = np.zeros((to.size, spec.dim_out))
            place[np.arange(to.size), to.ravel()] = 1
            out = out + t.reshape(x.shape[0], -1) @ mx.array(place, dtype=x.dtype)
        return out

    return product


@pytest.mark.parametrize(("mode", "shared"), [("uvw", True), ("uvu", False), ("uuu", True)])
def test_all_nestings_of_derivatives_to_third_order(mode, shared):
    spec = random_spec(mode, True, muls=(2, 2, 2))
    product = ItemProduct(spec, product_in_mlx(spec), shared, use_custom_kernel=True)
    arrays = random_arrays(spec, 2, shared)
    shapes = [arrays[r].shape for r in "xyw"]
    ends = np.cumsum([arrays[r].size for r in "xyw"])

    def function(numbers):
        pieces = mx.split(numbers, [int(e) for e in ends[:-1]])
        return product(*(p.reshape(s) for p, s in zip(pieces, shapes, strict=True)))

    check_nestings(function, np.concatenate([arrays[r].ravel() for r in "xyw"]))


def test_vmap_and_compile_keep_the_values():
    spec = random_spec("uvu", True)
    product = ItemProduct(spec, product_in_mlx(spec), True, use_custom_kernel=True)
    arrays = random_arrays(spec, 5, True)
    with mx.stream(mx.cpu):
        x, y, w = (mx.array(arrays[r], dtype=mx.float64) for r in "xyw")
        several = mx.stack([x, 2.0 * x, x + 1.0])
        found = mx.vmap(lambda a: product(a, y, w))(several)
        for k in range(3):
            assert np.array_equal(np.array(found[k]), np.array(product(several[k], y, w)))
        compiled = mx.compile(lambda a: mx.grad(lambda b: mx.sum(product(b, y, w) ** 2))(a))
        plain = mx.grad(lambda b: mx.sum(product_in_mlx(spec)(b, y, w) ** 2))(x)
        assert np.abs(np.array(compiled(x) - plain)).max() < 1e-12


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("shared", [True, False])
def test_the_switch_changes_the_way_but_not_the_result(weighted, shared):
    if not (weighted or shared):
        shared = True
    spec = random_spec("uvuv", weighted)
    arrays = random_arrays(spec, 9, shared)
    results = {}
    with mx.stream(mx.cpu):
        given = [mx.array(arrays[r], dtype=mx.float64) for r in roles(spec, "g")]
        for choice in (True, False):
            kernels.clear_report()
            product = ItemProduct(spec, product_in_mlx(spec), shared, choice)
            results[choice] = mx.grad(
                lambda *a, product=product: mx.sum(product(*a) ** 2),
                argnums=list(range(len(given))),
            )(*given)
            mx.eval(results[choice])
            backends = {c.backend for c in kernels.report() if "tensor_product" in c.primitive}
            # The derivative is traced after the call: it keeps the choice.
            assert backends == ({"native"} if choice else {"reference"})
    for a, b in zip(results[True], results[False], strict=True):
        assert float(mx.max(mx.abs(a - b))) < 1e-12


def test_derivatives_fall_back_to_plain_mlx_where_kernels_are_refused():
    spec = random_spec("uvw", True)
    product = ItemProduct(spec, product_in_mlx(spec), True)
    arrays = random_arrays(spec, 3, True)
    with mx.stream(mx.cpu):
        x, y, w, g = (mx.array(arrays[r], dtype=mx.float64) for r in "xywg")
        wanted = gradients(spec, arrays, True)
        with kernels.use("reference"):
            for target, given in (("x", "ywg"), ("y", "xwg"), ("w", "xyg"), ("g", "xyw")):
                named = {"x": x, "y": y, "w": w, "g": g}
                found = product._form.gradient(target, {r: named[r] for r in given})
                assert np.abs(np.array(found) - wanted[target]).max() < 1e-12


def test_guards(monkeypatch):
    spec = random_spec("uvuv", False)
    assert spec.refusal(0) == "no items"
    assert spec.refusal(1) is None
    empty = ItemProductSpec(2, 2, 2, 0, ())
    assert empty.refusal(1) == "no paths"
    monkeypatch.setattr(item_product_spec, "LARGEST_NUMBER_OF_TERMS", spec.n_terms)
    assert spec.refusal(1) is None
    monkeypatch.setattr(item_product_spec, "LARGEST_NUMBER_OF_TERMS", spec.n_terms - 1)
    assert "terms" in str(spec.refusal(1))


def test_forced_kernels_say_why_there_are_none():
    spec = random_spec("uvuv", False)
    product = ItemProduct(spec, product_in_mlx(spec), True, use_custom_kernel=True)
    with mx.stream(mx.cpu):
        x, y = mx.zeros((2, spec.dim_x)), mx.zeros((2, spec.dim_y))
        with pytest.raises(ValueError, match="mixed precision"):
            product(x, y.astype(mx.float16))
        with pytest.raises(ValueError, match="float16"):
            product(x.astype(mx.float16), y.astype(mx.float16))


def test_a_wrong_shape_is_refused():
    spec = random_spec("uvuv", False)
    with mx.stream(mx.cpu), pytest.raises(ValueError, match="wrong shape"):
        native.item_product(spec, "g", True, [mx.zeros((2, spec.dim_x)), mx.zeros((3, spec.dim_y))])


def test_a_path_outside_the_arrays_is_refused():
    spec = random_spec("uvuv", False)
    short = ItemProductSpec(spec.dim_x - 1, spec.dim_y, spec.dim_out, 0, spec.paths)
    with mx.stream(mx.cpu), pytest.raises(ValueError, match="outside"):
        native.item_product(
            short, "g", True, [mx.zeros((2, spec.dim_x - 1)), mx.zeros((2, spec.dim_y))]
        )
