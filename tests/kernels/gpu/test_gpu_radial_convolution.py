"""The convolution with weights from a table on an emulated GPU against plain MLX in float64."""

from __future__ import annotations

import importlib

import mlx.core as mx
import numpy as np
import pytest
from emulated_gpu import assert_close, emulated_gpu, to_float64
from random_convolutions import random_edges, random_spec

from mlpot import kernels
from mlpot.kernels import gpu
from mlpot.kernels.gpu.convolution_kernels import Tuning

module = importlib.import_module("mlpot.kernels.gpu.radial_convolution")
pytestmark = pytest.mark.emulated

N_NODES, N_EDGES, M, N_ROWS = 6, 40, 3, 10
ROLES = ("x", "y", "h", "table", "out")


def case(blocks, rows: bool, dtype=mx.float32):
    rng = np.random.default_rng(0)
    spec = random_spec(blocks, rng)
    n_rows = N_ROWS if rows else M
    shapes = {
        "x": (N_NODES, spec.dim_x),
        "y": (N_EDGES, spec.dim_y),
        "h": (N_EDGES, M),
        "table": (n_rows, spec.n_weights),
        "out": (N_NODES, spec.dim_out),
    }
    arrays = {k: mx.array(rng.normal(size=s).astype(np.float32)) for k, s in shapes.items()}
    first = mx.array(rng.integers(0, N_ROWS - M + 1, N_EDGES).astype(np.int32)) if rows else None
    edges = random_edges(N_NODES, N_EDGES, rng)
    return spec, {k: a.astype(dtype) for k, a in arrays.items()}, first, edges, n_rows


def wanted(spec, target, arrays, first, edges):
    """Gradient of <out, convolution> in float64, by MLX from the reference."""
    a = {k: to_float64(v) for k, v in arrays.items()}

    def form(values):
        x, y, h, table, out = (values[r] for r in ROLES)
        return (kernels.radial_convolution(spec, x, y, h, table, first, edges) * out).sum()

    with mx.stream(mx.cpu), kernels.use("reference"):
        gradient = mx.grad(form)(a)[target]
        mx.eval(gradient)
    return gradient


def check(blocks, targets, rows=True, dtype=mx.float32, tolerance=2e-6):
    spec, arrays, first, edges, n_rows = case(blocks, rows, dtype)
    given = {k: v for k, v in arrays.items() if len(targets) > 1 or k not in targets}
    with emulated_gpu() as device:
        found = gpu.radial_convolution(spec, targets, given, edges, first, M, n_rows)
    for target, value in zip(targets, found, strict=True):
        assert value.dtype == dtype
        assert_close(value, wanted(spec, target, arrays, first, edges), tolerance)
    return device


@pytest.mark.parametrize(
    "targets", [("out",), ("x",), ("y",), ("h",), ("table",), ("x", "y", "h")], ids="_".join
)
def test_values(targets):
    """Four channels a lane, and lanes without a channel."""
    device = check([(0, 1, 1, 8), (1, 1, 1, 3)], targets)
    assert all(c.spill_bytes == 0 for c in device.compiled.values())
    if targets == ("x", "y", "h"):
        names = ["radial_convolution_xyh_at_edges", "convolution_messages"]
        assert device.kernels == names


@pytest.mark.parametrize("fixed", [True, False])
def test_the_adjoint_to_a_fixed_table_is_kept_apart(fixed):
    """So that it is not evaluated where forces alone are wanted."""
    spec, arrays, first, edges, _ = case([(0, 1, 1, 4)], True)
    given = [arrays[k] for k in ("x", "y", "h", "table")]

    def value(*changed):
        out = kernels.radial_convolution(spec, *changed, first, edges, fixed_table=fixed)
        return (out * arrays["out"]).sum()

    with emulated_gpu() as device:
        found = mx.grad(value, argnums=(0, 1, 2, 3))(*given)
    name = "radial_convolution_xyh_at_edges" if fixed else "radial_convolution_xyhw_at_senders"
    assert name in device.kernels
    for target, slope in zip(("x", "y", "h", "table"), found, strict=True):
        assert_close(slope, wanted(spec, target, arrays, first, edges), 2e-6)


TABLE_FROM_WEIGHTS = ["segment_starts", "table_slots", "table_rows"]


@pytest.mark.parametrize(
    ("targets", "first"),
    [
        (("table",), "convolution_w_at_edges"),
        (("h", "table"), "radial_convolution_hw_at_edges"),
        (("x", "table"), "radial_convolution_xw_at_senders"),
        (("x", "y", "table"), "radial_convolution_xyhw_at_senders"),
        (("x", "y", "h", "table"), "radial_convolution_xyhw_at_senders"),
    ],
    ids=lambda value: "_".join(value) if isinstance(value, tuple) else "",
)
def test_table_with_others(targets, first):
    """By the adjoint to the weights, which the pass for the others writes."""
    device = check([(0, 1, 1, 8), (1, 1, 1, 3)], targets)
    assert device.kernels == [first, *TABLE_FROM_WEIGHTS]
    assert all(c.spill_bytes == 0 for c in device.compiled.values())


@pytest.mark.parametrize("fits", [True, False])
@pytest.mark.parametrize(
    ("targets", "alone"),
    [
        (("table",), []),
        (
            ("x", "y", "h", "table"),
            ["radial_convolution_xyh_at_edges", "convolution_messages"],
        ),
    ],
    ids=["table", "all"],
)
def test_memory_for_the_adjoint_to_the_weights(monkeypatch, targets, alone, fits):
    """Beyond the limit a kernel sums products of x, y and g over the edges of each row."""
    blocks = [(0, 1, 1, 4)]
    n_weights = case(blocks, True)[0].n_weights
    monkeypatch.setattr(module, "WEIGHT_BYTES", 4 * N_EDGES * n_weights - (0 if fits else 1))
    names = check(blocks, targets).kernels
    without = ["segment_starts", "radial_convolution_table", "radial_convolution_table_sum"]
    assert names[1:] == TABLE_FROM_WEIGHTS if fits else names == alone + without


@pytest.mark.parametrize("together", [True, False])
def test_messages_beside_the_adjoint_to_the_weights(monkeypatch, together):
    """A block of x that no path reads cannot have messages: it is summed at the senders."""
    convolution = importlib.import_module("mlpot.kernels.gpu.convolution")
    monkeypatch.setattr(convolution, "GATHERED_BYTES", 0)
    monkeypatch.setattr(convolution, "FEW_WEIGHTS", 0)
    if not together:
        monkeypatch.setattr(convolution, "EDGE_WITH_MESSAGES", Tuning(width=2, components=6))
    blocks = [(0, 1, 1, 2)] * (1 if together else 2)
    names = check(blocks, ("x", "table")).kernels
    one = ["radial_convolution_xw_at_edges", "convolution_messages"]
    two = ["radial_convolution_x", "convolution_w_at_edges"]
    assert names == (one if together else two) + TABLE_FROM_WEIGHTS


@pytest.mark.parametrize(
    "targets",
    [("out",), ("h",), ("table",), ("h", "table"), ("x", "y", "h", "table")],
    ids="_".join,
)
def test_all_rows_for_every_edge(targets):
    device = check([(0, 1, 1, 4)], targets, rows=False)
    assert all("radial" not in name for name in device.kernels)


def test_short_number_types_are_summed_in_float32():
    check([(0, 1, 1, 4)], ("out",), dtype=mx.float16, tolerance=3e-3)


def test_rows_that_do_not_exist_give_not_a_number():
    spec, arrays, first, edges, n_rows = case([(0, 1, 1, 4)], True)
    assert first is not None
    given = {k: arrays[k] for k in ("x", "y", "h", "table")}
    for edge, row in ((0, -1), (3, N_ROWS - M + 1)):
        rows = mx.array([row if e == edge else r for e, r in enumerate(first.tolist())])
        with emulated_gpu():
            (out,) = gpu.radial_convolution(spec, ("out",), given, edges, rows, M, n_rows)
        broken = np.isnan(np.array(out)).any(axis=1)
        assert np.flatnonzero(broken).tolist() == [int(edges.receivers[edge].item())]


def test_derivatives_of_the_public_function():
    spec, arrays, first, edges, _ = case([(0, 1, 1, 4)], True)
    point = [arrays[r] for r in ROLES[:4]]

    def energy(x, y, h, table):
        out = kernels.radial_convolution(spec, x, y, h, table, first, edges)
        return (out * out).sum()

    def results(point):
        tangent = mx.jvp(energy, point, point)[1][0]
        return [*mx.grad(energy, argnums=(0, 1, 2, 3))(*point), tangent]

    with emulated_gpu() as device:
        found = results(point)
        mx.eval(found)
    assert "radial_convolution_xyhw_at_senders" in device.kernels
    with mx.stream(mx.cpu), kernels.use("reference"):
        right = results([to_float64(a) for a in point])
    for a, b in zip(found, right, strict=True):
        assert_close(a, b, 2e-6)


def test_guards(monkeypatch):
    spec = random_spec([(0, 1, 1, 4)], np.random.default_rng(1))
    single = mx.ones((3, 3))

    def refusal(n_coefficients, rows=True, n_rows=50, *arrays):
        with emulated_gpu():
            check = gpu.radial_convolution_refusal
            return str(check(spec, 5, n_coefficients, n_rows, rows, single, *arrays))

    assert refusal(module.MOST_COEFFICIENTS) == "None"
    assert "9 coefficients an edge (the most is 8)" in refusal(module.MOST_COEFFICIENTS + 1)
    assert refusal(64, rows=False) == "None"
    assert "the most is" in refusal(6, True, 2**31)
    assert "mixed precision" in refusal(6, True, 50, single.astype(mx.float16))


def test_number_of_parts_of_a_row():
    fits = module.PARTS_BYTES // 4
    found = [module.parts_of_row(n) for n in (1, fits // 8, fits // 8 + 1, fits, 10 * fits)]
    assert found == [module.MOST_PARTS, 8, 7, 1, 1]
