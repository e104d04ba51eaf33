"""Linear maps between blocks on an emulated GPU against plain MLX in float64."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from emulated_gpu import assert_close, emulated_gpu, random_array, to_float64

from mlpot import kernels
from mlpot.kernels import LinearPath, LinearSpec
from mlpot.kernels.block_linear import _Reference
from mlpot.kernels.gpu import block_linear

pytestmark = pytest.mark.emulated

# Blocks of x and of the output as (d, mul), sizes of the blocks of scalars y (none: no y).
CASES = {
    "equal blocks": (((1, 32), (3, 32)), ((1, 32), (1, 40), (3, 32)), ()),
    "species": (((1, 16), (3, 16)), ((1, 48), (3, 16)), (3,)),
    "two kinds of scalars": (((1, 5), (3, 7)), ((1, 4), (3, 17)), (2, 1)),
    "odd sizes": (((1, 1), (7, 33), (1, 6)), ((1, 1), (7, 37), (3, 3), (1, 18)), (2,)),
    "one number": (((1, 1),), ((1, 1),), ()),
    "nothing shared": (((3, 4),), ((5, 4), (3, 2)), ()),
}


def spec_of(case: str) -> LinearSpec:
    """All allowed paths, the last first; a gap at the begin and the end of each array."""
    x_blocks, out_blocks, y_sizes = CASES[case]
    x_starts = np.cumsum([2] + [d * mul for d, mul in x_blocks])
    out_starts = np.cumsum([1] + [d * mul for d, mul in out_blocks])
    y_starts = np.cumsum([0, *y_sizes])
    paths, at = [], 3
    for i, (d, mul_in) in enumerate(x_blocks):
        for y_offset, n_y in list(zip(y_starts, y_sizes, strict=False)) or [(0, 1)]:
            for o, (d_out, mul_out) in enumerate(out_blocks):
                if d == d_out:
                    numbers = (x_starts[i], mul_in, y_offset, n_y, at, out_starts[o], mul_out, d)
                    paths.append(LinearPath(*map(int, numbers), factor=0.5 + len(paths)))
                    at += mul_in * n_y * mul_out
    sizes = int(x_starts[-1]) + 1, int(y_starts[-1]), at + 2, int(out_starts[-1]) + 1
    return LinearSpec(*sizes, tuple(paths[::-1]))


def arrays_of(spec: LinearSpec, n: int, dtype: mx.Dtype = mx.float32) -> dict[str, mx.array]:
    shapes = {"x": (n, spec.dim_x), "w": (spec.n_weights,), "out": (n, spec.dim_out)}
    if spec.dim_y:
        shapes["y"] = (n, spec.dim_y)
    return {
        role: random_array(shape, dtype, seed=i) for i, (role, shape) in enumerate(shapes.items())
    }


def reference(spec: LinearSpec, target: str, arrays: dict[str, mx.array]) -> mx.array:
    return getattr(_Reference(spec), target)({k: to_float64(v) for k, v in arrays.items()})


def targets(case: str) -> list[str]:
    return ["out", "x", "w", *(["y"] if CASES[case][2] else [])]


@pytest.mark.parametrize("n", [1, 7, 40])
@pytest.mark.parametrize(("case", "target"), [(c, t) for c in CASES for t in targets(c)])
def test_maps(case, target, n):
    spec = spec_of(case)
    arrays = arrays_of(spec, n)
    given = {role: a for role, a in arrays.items() if role != target}
    with emulated_gpu() as device:
        found = block_linear.block_linear(spec, target, given)
    assert_close(found, reference(spec, target, arrays), 2e-6)
    assert device.kernels == [f"block_linear_{target}"]


def test_sums_over_rows_in_parts(monkeypatch):
    monkeypatch.setattr(block_linear, "ROWS_OF_PART", 50)
    spec = spec_of("two kinds of scalars")
    arrays = arrays_of(spec, 41)
    given = {role: a for role, a in arrays.items() if role != "w"}
    assert block_linear._n_parts(spec, 41) == 3
    with emulated_gpu():
        found = block_linear.block_linear(spec, "w", given)
    assert_close(found, reference(spec, "w", arrays), 2e-6)


def test_number_of_parts():
    spec = spec_of("equal blocks")
    rows = block_linear.ROWS_OF_PART
    found = [block_linear._n_parts(spec, n) for n in (1, rows // 3, rows // 3 + 1, 10**9)]
    assert found == [1, 1, 2, block_linear.MOST_PARTS]


@pytest.mark.parametrize(("dtype", "tolerance"), [(mx.float16, 2e-3), (mx.bfloat16, 1e-2)])
@pytest.mark.parametrize("target", ["out", "x", "w", "y"])
def test_short_number_types(target, dtype, tolerance):
    spec = spec_of("two kinds of scalars")
    arrays = arrays_of(spec, 9, dtype)
    given = {role: a for role, a in arrays.items() if role != target}
    with emulated_gpu():
        found = block_linear.block_linear(spec, target, given)
    assert found.dtype == dtype
    assert_close(found, reference(spec, target, arrays), tolerance)


def test_primitive_and_its_derivatives():
    spec = spec_of("two kinds of scalars")
    a = arrays_of(spec, 3)
    v = random_array((3, spec.dim_x), seed=9)

    def energy(x, y, w):
        return (kernels.block_linear(spec, x, y, w) ** 3).sum()

    def products(x, y, w):
        gradient = mx.grad(energy)
        forward = mx.jvp(lambda q: gradient(q, y, w), [x], [v.astype(x.dtype)])[1][0]
        return forward, mx.grad(lambda p: (gradient(x, y, p) * v.astype(x.dtype)).sum())(w)

    with emulated_gpu() as device:
        found = products(a["x"], a["y"], a["w"])
        mx.eval(found)
    with kernels.use("reference"):
        wanted = products(*(to_float64(a[role]) for role in ("x", "y", "w")))
    for one, other in zip(found, wanted, strict=True):
        assert_close(one, other, 2e-5)
    assert {"block_linear_out", "block_linear_x", "block_linear_w"} <= set(device.kernels)


def test_refusals():
    spec = spec_of("equal blocks")
    x, w = mx.zeros((4, spec.dim_x)), mx.zeros((spec.n_weights,))
    with emulated_gpu():
        assert block_linear.block_linear_refusal(spec, "out", 4, [x, w]) is None
        found = block_linear.block_linear_refusal(spec, "out", 4, [x, w.astype(mx.float16)])
        assert "mixed precision" in (found or "")
        found = block_linear.block_linear_refusal(spec, "out", 0, [x[:0], w])
        assert found == "an array is empty"


def test_grid_that_is_too_large():
    spec = LinearSpec(1, 0, 2**25, 2**25, (LinearPath(0, 1, 0, 1, 0, 0, 2**25, 1, 1.0),))
    with emulated_gpu():
        x, w = mx.zeros((32 * 16, 1)), mx.zeros((2**25,))
        assert "the most is" in (block_linear.block_linear_refusal(spec, "out", 512, [x, w]) or "")
        assert block_linear.block_linear_refusal(spec, "out", 480, [x[:480], w]) is None
