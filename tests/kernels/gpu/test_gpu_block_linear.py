"""Linear maps between blocks on an emulated GPU against plain MLX in float64."""

from __future__ import annotations

import mlx.core as mx
import pytest
from emulated_gpu import assert_close, emulated_gpu, random_array, to_float64
from linear_maps import CASES, arrays_of, spec_of

from mlpot import kernels
from mlpot.kernels import LinearPath, LinearSpec
from mlpot.kernels.block_linear import _Reference
from mlpot.kernels.gpu import block_linear

pytestmark = pytest.mark.emulated


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
