"""Convolutions on an emulated GPU against plain MLX in float64."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
from emulated_gpu import EmulatedGPU, assert_close, emulated_gpu, to_float64
from random_convolutions import random_edges

from mlpot.kernels import ConvolutionSpec, EdgeIndex, gpu
from mlpot.kernels.convolution_reference import Plan


def arrays_of(
    spec: ConvolutionSpec, n_nodes: int, n_edges: int, dtype: mx.Dtype = mx.float32, seed: int = 0
) -> dict[str, mx.array]:
    """Random x, y, w, and out for the cotangent."""
    rng = np.random.default_rng(seed)
    shapes = {
        "x": (n_nodes, spec.dim_x),
        "y": (n_edges, spec.dim_y),
        "w": (n_edges, spec.n_weights),
        "out": (n_nodes, spec.dim_out),
    }
    return {
        k: mx.array(rng.normal(size=s).astype(np.float32)).astype(dtype) for k, s in shapes.items()
    }


def reference(
    spec: ConvolutionSpec, target: str, arrays: dict[str, mx.array], edges: EdgeIndex
) -> mx.array:
    """A gradient of the form in float64."""
    plan, a = Plan(spec), {k: to_float64(v) for k, v in arrays.items()}
    with mx.stream(mx.cpu):
        if target == "out":
            return plan.conv(a["x"], a["y"], a["w"], edges)
        if target == "x":
            return plan.conv_x(a["y"], a["w"], a["out"], edges)
        if target == "y":
            return plan.conv_y(a["x"], a["w"], a["out"], edges)
        return plan.conv_w(a["x"], a["y"], a["out"], edges)


def given(targets: tuple[str, ...], arrays: dict[str, mx.array]) -> dict[str, mx.array]:
    """The arrays that some gradients need."""
    return {k: v for k, v in arrays.items() if len(targets) > 1 or k not in targets}


def check(
    spec: ConvolutionSpec,
    n_nodes: int,
    n_edges: int,
    targets: tuple[str, ...],
    dtype: mx.Dtype = mx.float32,
    tolerance: float = 2e-6,
) -> EmulatedGPU:
    """Compare gradients to some targets on random arrays; what ran."""
    rng = np.random.default_rng(n_edges)
    edges, arrays = random_edges(n_nodes, n_edges, rng), arrays_of(spec, n_nodes, n_edges, dtype)
    with emulated_gpu() as device:
        found = gpu.convolution(spec, targets, given(targets, arrays), edges)
    for target, value in zip(targets, found, strict=True):
        assert value.dtype == dtype
        assert_close(value, reference(spec, target, arrays, edges), tolerance)
    return device
