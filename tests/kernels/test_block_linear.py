"""Linear maps between blocks against einsum in float64, and every nesting of derivatives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from seeds import generator

from mlpot import kernels
from mlpot.kernels import LinearPath, LinearSpec, native

TOLERANCE = {mx.float32: 2e-6, mx.float64: 1e-13}
ROLES = ("x", "y", "w", "out")

# Blocks of x and of the output as (d, mul), sizes of the scalar blocks of y (none: no y).
CASES = {
    "equal blocks": (((1, 32), (3, 32), (5, 32)), ((1, 32), (1, 64), (3, 32), (5, 32)), ()),
    "species": (((1, 32), (3, 32), (5, 32)), ((1, 96), (3, 32), (5, 32)), (3,)),
    "two kinds of scalars": (((1, 5), (3, 7)), ((1, 4), (3, 17)), (2, 1)),
    "odd sizes": (((1, 1), (3, 19), (7, 33), (1, 6)), ((1, 1), (7, 50), (3, 3), (1, 18)), (4,)),
    "one number": (((1, 1),), ((1, 1),), ()),
    "one channel out": (((1, 70), (1, 3)), ((1, 1),), (1,)),
    "nothing shared": (((3, 4),), ((5, 4), (3, 2)), ()),
}


def random_map(case: str, rng) -> LinearSpec:
    """All allowed paths, in an order of their own; a gap in each array."""
    x_blocks, out_blocks, y_sizes = CASES[case]
    x_starts = np.cumsum([2] + [d * mul for d, mul in x_blocks])
    out_starts = np.cumsum([1] + [d * mul for d, mul in out_blocks])
    y_starts = np.cumsum([0, *y_sizes])
    scalars = list(zip(y_starts, y_sizes, strict=False)) or [(0, 1)]
    paths, at = [], 3
    for i, (d, mul_in) in enumerate(x_blocks):
        for y_offset, n_y in scalars:
            for o, (d_out, mul_out) in enumerate(out_blocks):
                if d != d_out:
                    continue
                numbers = (x_starts[i], mul_in, y_offset, n_y, at, out_starts[o], mul_out, d)
                paths.append(LinearPath(*map(int, numbers), factor=float(rng.normal())))
                at += mul_in * n_y * mul_out
    order = rng.permutation(len(paths))
    return LinearSpec(
        int(x_starts[-1]),
        int(y_starts[-1]),
        at,
        int(out_starts[-1]) + 1,
        tuple(paths[k] for k in order),
    )


def random_arrays(spec: LinearSpec, n: int, rng, one_hot: bool = False) -> dict[str, np.ndarray]:
    shapes = {"x": (n, spec.dim_x), "w": (spec.n_weights,), "out": (n, spec.dim_out)}
    arrays = {k: rng.normal(size=s) for k, s in shapes.items()}
    if spec.dim_y:
        arrays["y"] = rng.normal(size=(n, spec.dim_y))
        if one_hot:
            arrays["y"] = 1.5 * np.eye(spec.dim_y)[rng.integers(0, spec.dim_y, n)]
    return arrays


def want(spec: LinearSpec, a: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """All gradients of <out, map> in float64."""
    n = len(a["x"])
    found = {role: np.zeros_like(value) for role, value in a.items()}
    for p in spec.paths:
        to_x = slice(p.x_offset, p.x_offset + p.d * p.mul_in)
        to_out = slice(p.out_offset, p.out_offset + p.d * p.mul_out)
        to_w = slice(p.w_offset, p.w_offset + p.mul_in * p.n_y * p.mul_out)
        to_y = slice(p.y_offset, p.y_offset + p.n_y)
        x = a["x"][:, to_x].reshape(n, p.d, p.mul_in)
        g = a["out"][:, to_out].reshape(n, p.d, p.mul_out)
        w = p.factor * a["w"][to_w].reshape(p.mul_in, p.n_y, p.mul_out)
        y = a["y"][:, to_y] if spec.dim_y else np.ones((n, 1))
        found["out"][:, to_out] += np.einsum("nv,uvc,nku->nkc", y, w, x).reshape(n, -1)
        found["x"][:, to_x] += np.einsum("nv,uvc,nkc->nku", y, w, g).reshape(n, -1)
        found["w"][to_w] += p.factor * np.einsum("nv,nku,nkc->uvc", y, x, g).ravel()
        if spec.dim_y:
            found["y"][:, to_y] += np.einsum("uvc,nku,nkc->nv", w, x, g)
    return found


def close(got: Any, wanted: np.ndarray, tolerance: float, what: object = None) -> None:
    got = np.array(got)
    assert got.shape == wanted.shape
    assert np.abs(got - wanted).max() <= tolerance * np.abs(wanted).max(initial=0), what


@pytest.mark.parametrize("dtype", TOLERANCE, ids=["float32", "float64"])
@pytest.mark.parametrize("backend", ["reference", "auto"])
@pytest.mark.parametrize("n", [1, 7, 100])
@pytest.mark.parametrize("case", CASES)
def test_values_are_those_of_einsum(case, n, backend, dtype):
    rng = generator()
    spec = random_map(case, rng)
    arrays = random_arrays(spec, n, rng, one_hot=bool(rng.integers(2)))
    given = {k: mx.array(v, dtype=dtype) for k, v in arrays.items()}
    host = {k: np.array(v, dtype=np.float64) for k, v in given.items()}
    wanted = want(spec, host)
    # A single number may be small because its terms cancel: what they add up to without their signs
    # counts then.
    positive = replace(spec, paths=tuple(replace(p, factor=abs(p.factor)) for p in spec.paths))
    sizes = {
        k: 0.1 * v.max() for k, v in want(positive, {k: abs(v) for k, v in host.items()}).items()
    }

    def of(x, w, *y):
        return kernels.block_linear(spec, x, y[0] if y else None, w)

    primals = [given["x"], given["w"], *([given["y"]] if spec.dim_y else [])]
    kernels.clear_report()
    with kernels.use(backend):
        (out,), grads = mx.vjp(lambda *a: [of(*a)], primals, [given["out"]])
        mx.eval(out, grads)
    for role, got in zip(("out", "x", "w", "y"), (out, *grads), strict=False):
        got = np.array(got)
        assert got.shape == wanted[role].shape
        scale = max(np.abs(wanted[role]).max(), sizes[role])
        assert np.abs(got - wanted[role]).max() <= TOLERANCE[dtype] * scale, role
    expected = {"reference": {"reference"}, "auto": {"native"}}[backend]
    assert {c.backend for c in kernels.report()} == expected


@pytest.mark.parametrize("backend", ["reference", "auto"])
@pytest.mark.parametrize("case", ["two kinds of scalars", "nothing shared"])
def test_every_nesting_of_derivatives_to_third_order(case, backend):
    rng = generator()
    spec = random_map(case, rng)
    host = {k: 0.3 * v for k, v in random_arrays(spec, 4, rng).items() if k != "out"}
    point: Any = [mx.array(v, dtype=mx.float64) for v in host.values()]
    v: Any = [mx.array(0.3 * rng.normal(size=a.shape), dtype=mx.float64) for a in host.values()]
    every = tuple(range(len(point)))
    scale = mx.array(rng.normal(size=(4, spec.dim_out)), dtype=mx.float64)

    def energy(x, w, *y):
        out = kernels.block_linear(spec, x * x, y[0] if y else None, w)
        return (scale * out * out * out).sum()

    gradient: Any = mx.grad(energy, argnums=every)

    def along(*at) -> Any:
        return sum((g * d).sum() for g, d in zip(gradient(*at), v, strict=True))

    def along_forward(*at) -> Any:
        return mx.jvp(lambda *a: [energy(*a)], list(at), v)[1][0]

    def moved(t: float) -> list:
        return [p + t * d for p, d in zip(point, v, strict=True)]

    def difference(function, step: float = 3e-4) -> list[np.ndarray]:
        at = {k: [np.array(a) for a in function(moved(k * step))] for k in (-2, -1, 1, 2)}
        return [
            (8 * (at[1][i] - at[-1][i]) - (at[2][i] - at[-2][i])) / (12 * step)
            for i in range(len(at[1]))
        ]

    with kernels.use(backend):
        second = difference(lambda at: gradient(*at))
        for way in (
            mx.jvp(gradient, point, v)[1],
            mx.grad(along, argnums=every)(*point),
            mx.grad(along_forward, argnums=every)(*point),
        ):
            for got, wanted in zip(way, second, strict=True):
                close(got, wanted, 1e-8)
        curvature: Any = mx.grad(along, argnums=every)

        def twice_along(*at) -> Any:
            return sum((g * d).sum() for g, d in zip(curvature(*at), v, strict=True))

        third = difference(lambda at: curvature(*at))
        for way in (
            mx.jvp(curvature, point, v)[1],
            mx.grad(twice_along, argnums=every)(*point),
        ):
            for got, wanted in zip(way, third, strict=True):
                close(got, wanted, 1e-7)
        compiled = mx.compile(lambda *a: gradient(*a))(*point)
        for got, wanted in zip(compiled, gradient(*point), strict=True):
            close(got, np.array(wanted), 1e-13)
        batch = mx.stack([v[0], point[0]])

        def hvp(u: mx.array) -> mx.array:
            return mx.jvp(lambda x: gradient(x, *point[1:])[0], [point[0]], [u])[1][0]

        mapped = mx.vmap(hvp)(batch)
        close(mapped[1], np.array(hvp(point[0])), 1e-12)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=["float32", "float64"])
def test_same_bits_in_two_runs_and_with_any_number_of_threads(dtype):
    rng = generator()
    spec = random_map("species", rng)
    arrays = random_arrays(spec, 500, rng, one_hot=True)
    given = {k: mx.array(v, dtype=dtype) for k, v in arrays.items()}
    before = native.num_threads()
    results = []
    try:
        for n in (1, 2, 2, 3):
            native.set_num_threads(n)
            found = [
                native.block_linear(spec, t, {k: v for k, v in given.items() if k != t})
                for t in ROLES
            ]
            mx.eval(found)
            results.append([np.array(a).tobytes() for a in found])
    finally:
        native.set_num_threads(before)
    assert all(r == results[0] for r in results)


def test_what_lies_in_other_columns_does_not_matter():
    rng = generator()
    spec = random_map("odd sizes", rng)
    a = {k: mx.array(v, dtype=mx.float32) for k, v in random_arrays(spec, 9, rng).items()}
    clean = np.array(kernels.block_linear(spec, a["x"], a["y"], a["w"]))
    first = spec.paths[0]
    column = mx.arange(spec.dim_x)[None, :]
    inside = (column >= first.x_offset) & (column < first.x_offset + first.d * first.mul_in)
    x = mx.where(inside, a["x"], mx.array(np.nan))
    got = np.array(kernels.block_linear(spec, x, a["y"], a["w"]))
    fed = {p.out_offset for p in spec.paths if p.x_offset != first.x_offset}
    touched = np.zeros(spec.dim_out, bool)
    for p in spec.paths:
        if p.out_offset in fed:
            touched[p.out_offset : p.out_offset + p.d * p.mul_out] = True
    assert np.isnan(got[:, touched]).all()
    assert np.array_equal(got[:, ~touched], clean[:, ~touched])


def test_views_are_taken():
    rng = generator()
    spec = random_map("species", rng)
    a = {k: mx.array(v, dtype=mx.float64) for k, v in random_arrays(spec, 12, rng).items()}
    plain = np.array(kernels.block_linear(spec, a["x"], a["y"], a["w"]))
    turned = mx.contiguous(a["x"].T).T
    wide = mx.concatenate([a["y"], a["y"]], axis=1)[:, : spec.dim_y]
    twice = mx.repeat(a["w"], 2)[::2]
    assert np.array_equal(np.array(kernels.block_linear(spec, turned, wide, twice)), plain)


def test_arrays_that_do_not_fit_are_refused():
    rng = generator()
    spec = random_map("species", rng)
    a = {k: mx.array(v, dtype=mx.float32) for k, v in random_arrays(spec, 5, rng).items()}
    with pytest.raises(ValueError, match=f"x has {spec.dim_x - 1} columns"):
        kernels.block_linear(spec, a["x"][:, 1:], a["y"], a["w"])
    with pytest.raises(ValueError, match="y has 0 columns, the linear map needs 3"):
        kernels.block_linear(spec, a["x"], None, a["w"])
    with pytest.raises(ValueError, match="wrong shape"):
        native.block_linear(spec, "out", {**a, "y": a["y"][:-1]})
    with pytest.raises(ValueError, match="one dtype"):
        native.block_linear(spec, "out", {**a, "y": a["y"].astype(mx.float64)})
    with pytest.raises(ValueError, match="ends at 9 of x, which has 8 columns"):
        LinearSpec(8, 0, 6, 6, (LinearPath(0, 3, 0, 1, 0, 0, 2, 3, 1.0),))
