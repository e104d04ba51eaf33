"""The convolution family on an emulated GPU against plain MLX in float64."""

from __future__ import annotations

import dataclasses
import importlib

import mlx.core as mx
import numpy as np
import pytest
from emulated_convolution import arrays_of, check
from emulated_gpu import assert_close, emulated_gpu, to_float64
from nvrtc import compile_text, mlx_text
from random_convolutions import CASES, random_edges, random_spec

from mlpot import kernels
from mlpot.kernels import ConvolutionPath, ConvolutionSpec, gpu
from mlpot.kernels.gpu import (
    convolution_kernels,
    convolution_plan,
    convolution_tasks,
    lane_sums,
)
from mlpot.kernels.gpu.convolution_text import Sizes
from mlpot.kernels.gpu.generated import GeneratedKernel

module = importlib.import_module("mlpot.kernels.gpu.convolution")
pytestmark = pytest.mark.emulated

TARGETS = [("out",), ("x",), ("y",), ("w",), ("y", "w"), ("x", "y", "w"), ("x", "w")]


@pytest.mark.parametrize("targets", TARGETS, ids="".join)
def test_one_channel(targets):
    """32 edges at a time in a warp, and a column of x that no path reads."""
    check(random_spec(CASES["one channel"], np.random.default_rng(1), gap=1), 7, 40, targets)


@pytest.mark.parametrize("targets", [("out",), ("x",), ("x", "y", "w")], ids="".join)
def test_lanes_without_a_channel(targets):
    """50 channels of two warps and 3 of a quarter; with a single edge too."""
    spec = random_spec([(0, 1, 1, 50), (1, 1, 1, 3)], np.random.default_rng(1))
    for n_edges in (40, 1):
        check(spec, 5, n_edges, targets)


@pytest.mark.parametrize("targets", [("out",), ("x",), ("y", "w"), ("x", "y", "w")], ids="".join)
def test_vectors_of_channels(targets):
    """Four channels a lane, four edges at a time in a warp; a node of many edges, one of none."""
    blocks = [(0, 1, 1, 32), (1, 1, 2, 32)]
    device = check(random_spec(blocks, np.random.default_rng(2)), 6, 50, targets)
    if len(targets) == 3:
        assert device.kernels == ["convolution_xyw_at_senders"]
    assert all(c.spill_bytes == 0 for c in device.compiled.values())


@pytest.mark.parametrize("targets", [("out",), ("x",), ("y", "w"), ("x", "y", "w")], ids="".join)
def test_one_kind_of_work_after_the_other(monkeypatch, targets):
    """As where gathered rows leave the cache; several kinds, and nodes that fill no block."""
    monkeypatch.setattr(convolution_tasks, "CACHED_ELEMENTS", 0)
    spec = random_spec([(0, 1, 1, 32), (1, 1, 0, 3), (2, 1, 2, 8)], np.random.default_rng(6))
    sizes = Sizes(spec.dim_x, spec.dim_y, spec.n_weights, spec.dim_out)
    kernel = convolution_kernels.forward_kernel(spec, sizes, module.FORWARD).kernel
    assert "alternate = n_nodes <= 0;" in kernel.body("cuda")
    check(spec, 7, 40, targets)


@pytest.mark.parametrize(
    ("dtype", "tolerance", "channels"), [(mx.float16, 2e-3, 3), (mx.bfloat16, 1.5e-2, 8)]
)
def test_short_number_types_are_summed_in_float32(dtype, tolerance, channels):
    spec = random_spec([(1, 1, 1, channels)], np.random.default_rng(4))
    for targets in (("out",), ("x", "y", "w")):
        check(spec, 4, 20, targets, dtype, tolerance)


def parity_twins(mul: int, lmax: int) -> ConvolutionSpec:
    """All paths up to lmax for two parities: the twins differ only in where they lie."""
    blocks = [
        (l1, l2, l3, mul)
        for l1 in range(lmax + 1)
        for l2 in range(lmax + 1)
        for l3 in range(abs(l1 - l2), min(l1 + l2, lmax) + 1)
    ]
    one = random_spec(blocks, np.random.default_rng(5))
    shift = [
        dataclasses.replace(
            p,
            x_offset=p.x_offset + one.dim_x,
            w_offset=p.w_offset + one.n_weights,
            out_offset=p.out_offset + one.dim_out,
        )
        for p in one.paths
    ]
    sizes = 2 * one.dim_x, one.dim_y, 2 * one.n_weights, 2 * one.dim_out
    return ConvolutionSpec(*sizes, (*one.paths, *shift))


def test_many_paths_share_texts_and_do_not_spill():
    spec = parity_twins(32, 3)
    assert len(spec.paths) > 60
    plan = convolution_plan.layout(spec, 4, 64)
    assert 2 * len(plan.shapes) == len(plan.kinds)
    sizes = Sizes(spec.dim_x, spec.dim_y, spec.n_weights, spec.dim_out)
    for node_kernel in (
        convolution_kernels.forward_kernel(spec, sizes, module.FORWARD),
        convolution_kernels.edge_kernel(spec, sizes, "xyw", module.EDGE_WITH_MESSAGES),
        convolution_kernels.sender_kernel(spec, sizes, "xyw", module.TOGETHER),
    ):
        kernel = node_kernel.kernel
        index = ("senders", "receivers", "receiver_ptr", "sender_perm", "sender_ptr")
        text = mlx_text(
            kernel.name,
            [(n, *((mx.int32, 1) if n in index else (mx.float32, 2))) for n in kernel.inputs],
            [(n, mx.float32) for n in kernel.outputs],
            kernel.body("cuda"),
            kernel.header("cuda"),
        )
        assert compile_text(text, "sm_90a").spill_bytes == 0


def test_derivatives_of_derivatives():
    spec = random_spec([(0, 1, 1, 4)], np.random.default_rng(6))
    edges = random_edges(4, 9, np.random.default_rng(7))
    arrays = arrays_of(spec, 4, 9)
    point = [arrays["x"], arrays["y"], arrays["w"]]

    def energy(x, y, w):
        out = kernels.convolution(spec, x, y, w, edges)
        return (out * out * out).sum()

    gradient = mx.grad(energy, argnums=(0, 1, 2))

    def slope(x, y, w):
        return sum((g * g).sum() for g in gradient(x, y, w))

    def results(point):
        return [
            *gradient(*point),
            *mx.grad(slope, argnums=(0, 1, 2))(*point),
            *mx.jvp(gradient, point, point)[1],
        ]

    with emulated_gpu() as device:
        found = results(point)
        mx.eval(found)
    assert "convolution_xyw_at_senders" in device.kernels
    with mx.stream(mx.cpu), kernels.use("reference"):
        wanted = results([to_float64(a) for a in point])
    for a, b in zip(found, wanted, strict=True):
        assert_close(a, b, 2e-6)


@pytest.mark.parametrize(("lanes", "n"), [(1, 2), (2, 9), (8, 1), (8, 9), (32, 9), (32, 33)])
def test_sums_over_lanes(lanes, n):
    names = [f"v{j}" for j in range(n)]
    body = (
        "\n".join(
            [
                "const INDEX row = (GLOBAL_X / LANES) * COUNT;",
                *(f"float {name} = x[GLOBAL_X * COUNT + {j}];" for j, name in enumerate(names)),
                *lane_sums.store_lane_sums(names, lanes, "out", "row"),
            ]
        )
        .replace("LANES", str(lanes))
        .replace("COUNT", str(n))
    )
    kernel = GeneratedKernel(f"lane_sums_{lanes}_{n}", ["x"], ["out"], body)
    x = mx.array(np.random.default_rng(8).normal(size=(32, n)).astype(np.float32))
    with emulated_gpu():
        (out,) = kernel([x], [(32 // lanes, n)], [mx.float32], blocks=1, threads=32)
    assert_close(out, np.array(x).reshape(-1, lanes, n).sum(axis=1), 1e-6)


def simple_spec(**changes) -> ConvolutionSpec:
    path = ConvolutionPath(0, 4, 1, 0, 1, 0, 0, 4, 1, 4, np.ones((1, 1, 1)))
    other = dataclasses.replace(path, w_offset=4, out_offset=4, **changes)
    return ConvolutionSpec(8, 1, 4 + other.mul, 4 + other.mul, (path, other))


def refusal(spec, *arrays):
    with emulated_gpu():
        return str(gpu.convolution_refusal(spec, 5, *arrays))


def test_guards(monkeypatch):
    single = mx.ones((3, 3))
    spec = simple_spec()
    assert refusal(spec, single, single) == "None"
    assert "no GPU" in str(gpu.convolution_refusal(spec, 5, single))
    assert "mixed precision" in refusal(spec, single, single.astype(mx.float16))
    assert refusal(spec, single.astype(mx.float16)) == "None"
    assert "empty" in refusal(spec, mx.ones((0, 3)))
    assert refusal(simple_spec(x_offset=4), single) == "None"
    assert "overlapping blocks" in refusal(simple_spec(x_offset=2, x_stride=2, mul=2), single)
    monkeypatch.setattr(module, "MOST_TERMS", 2)
    assert refusal(simple_spec(), single) == "None"
    monkeypatch.setattr(module, "MOST_TERMS", 1)
    assert "2 coupling coefficients (the most is 1)" in refusal(simple_spec(), single)


def test_grids_that_are_too_large():
    single = mx.ones((3, 3))
    with emulated_gpu():
        assert gpu.convolution_refusal(simple_spec(), 10**7, single) is None
        assert "the most is" in str(gpu.convolution_refusal(simple_spec(), 2**31 - 1, single))


@pytest.mark.parametrize(("n_nodes", "n_edges"), [(1, 3), (3, 1)])
def test_arrays_of_one_row(n_nodes, n_edges):
    spec = random_spec([(0, 0, 0, 4)], np.random.default_rng(11))
    check(spec, n_nodes, n_edges, ("out",))
