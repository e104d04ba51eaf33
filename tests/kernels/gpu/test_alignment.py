"""CUDA kernels that read vectors, with inputs that begin where a vector cannot."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from emulated_gpu import assert_close, random_array
from host_cuda import HostKernel
from random_convolutions import random_edges, random_spec

from mlpot import kernels
from mlpot.kernels.gpu import convolution_kernels
from mlpot.kernels.gpu.convolution import EDGE, FORWARD
from mlpot.kernels.gpu.convolution_text import Sizes
from mlpot.kernels.gpu.dialect import DIALECTS, translate_body
from mlpot.kernels.gpu.generated import GeneratedKernel
from mlpot.kernels.gpu.vectors import for_any_start

pytestmark = pytest.mark.emulated

N_NODES, N_EDGES = 3, 7
#: 128 channels are a warp of lanes with four each: no lane needs another.
SPEC = random_spec([(0, 1, 1, 128), (1, 1, 0, 128)], np.random.default_rng(0))
SIZES = Sizes(SPEC.dim_x, SPEC.dim_y, SPEC.n_weights, SPEC.dim_out)
EDGES = random_edges(N_NODES, N_EDGES, np.random.default_rng(1))
ARRAYS = {
    "x": random_array((N_NODES, SPEC.dim_x)),
    "y": random_array((N_EDGES, SPEC.dim_y)),
    "w": random_array((N_EDGES, SPEC.n_weights)),
    "g": random_array((N_NODES, SPEC.dim_out)),
}
MAKERS = {
    "out": lambda: convolution_kernels.forward_kernel(SPEC, SIZES, FORWARD),
    "x": lambda: convolution_kernels.sender_kernel(
        SPEC, SIZES, "x", convolution_kernels.Tuning(width=4)
    ),
    "w": lambda: convolution_kernels.edge_kernel(SPEC, SIZES, "w", EDGE),
}
SHAPES = {
    "out": (N_NODES, SPEC.dim_out),
    "x": (N_NODES, SPEC.dim_x),
    "w": (N_EDGES, SPEC.n_weights),
}


def wanted(target: str) -> np.ndarray:
    def total(x, w):
        return (kernels.convolution(SPEC, x, ARRAYS["y"], w, EDGES) * ARRAYS["g"]).sum()

    with kernels.use("reference"):
        if target == "out":
            return np.array(kernels.convolution(SPEC, ARRAYS["x"], ARRAYS["y"], ARRAYS["w"], EDGES))
        number = ("x", "w").index(target)
        return np.array(mx.grad(total, argnums=number)(ARRAYS["x"], ARRAYS["w"]))


@pytest.mark.parametrize("target", MAKERS)
def test_arrays_that_begin_anywhere(target, tmp_path):
    node_kernel = MAKERS[target]()
    assert {shape.width for shape in node_kernel.plan.shapes} == {4}
    kernel = node_kernel.kernel
    given = {**ARRAYS, **EDGES.arrays()}
    inputs = [np.array(given[name]) for name in kernel.inputs]
    kinds = tuple((given[name].dtype, given[name].ndim) for name in kernel.inputs)
    host = HostKernel(kernel.cuda_text(kinds, (mx.float32,), wide=False), tmp_path)
    read = [name for name in kernel.inputs if name in ("x", "w", "g")]
    exact = wanted(target)
    for moved in (None, *read):
        for start in (1, 2) if moved else (0,):
            starts = [start if name == moved else 0 for name in kernel.inputs]
            found, misaligned = host(
                inputs, starts, SHAPES[target], node_kernel.blocks(N_NODES), 32 * node_kernel.warps
            )
            assert misaligned == 0, f"{moved} begins {start} elements past a vector"
            assert_close(mx.array(found), exact, 2e-6)


def test_without_the_check_vectors_would_be_read_there(tmp_path):
    """What the test above would see."""
    node_kernel = MAKERS["out"]()
    kernel = node_kernel.kernel
    kernel._vectors = []
    given = {**ARRAYS, **EDGES.arrays()}
    inputs = [np.array(given[name]) for name in kernel.inputs]
    kinds = tuple((given[name].dtype, given[name].ndim) for name in kernel.inputs)
    host = HostKernel(kernel.cuda_text(kinds, (mx.float32,), wide=False), tmp_path)
    starts = [int(name == "x") for name in kernel.inputs]
    blocks = node_kernel.blocks(N_NODES)
    assert host(inputs, starts, SHAPES["out"], blocks, 32 * node_kernel.warps)[1] > 0


def test_bodies():
    body = "READ4(a, b, c, d, x, i) STREAM2(a, b, w, j) READ1(a, x, i);"
    whole = for_any_start(body, ["x", "w"])
    assert whole.count(body) == 1
    assert "SINGLE4(a, b, c, d, x, i) SINGLE2(a, b, w, j) READ1(a, x, i);" in whole
    assert "if (ALIGNED(x) && ALIGNED(w)) {" in whole
    assert for_any_start("READ1(a, x, i);", ["x"]) == "READ1(a, x, i);"
    assert for_any_start(body, []) == body


def test_metal_has_one_body():
    kernel = GeneratedKernel("k", ["x"], ["out"], "READ2(a, b, x, 0)", "VECTOR_WORDS", ["x"])
    texts = {dialect: kernel.body(dialect) for dialect in DIALECTS}
    assert texts["metal"] == translate_body("READ2(a, b, x, 0)", "metal")
    assert "SINGLE2" in texts["cuda"]
