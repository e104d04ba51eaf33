"""Kernels with offsets of 64 bits, which arrays of 2^31 elements need, on small arrays."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from emulated_gpu import emulated_gpu, random_array
from linear_maps import arrays_of, spec_of
from random_convolutions import random_edges, random_spec

from mlpot import o3
from mlpot.kernels import gpu
from mlpot.kernels.gpu import GeneratedKernel, block_linear, generated
from mlpot.o3.solid_harmonics import solid_harmonics

pytestmark = pytest.mark.emulated


def linear(target: str) -> mx.array:
    spec = spec_of("two kinds of scalars")
    arrays = {k: a for k, a in arrays_of(spec, 5).items() if k != target}
    return block_linear.block_linear(spec, target, arrays)


def harmonics_pulled() -> mx.array:
    x, c = random_array((5, 3)), random_array((5, 9))
    return mx.vjp(lambda v: solid_harmonics(2, v), [x], [c])[1][0]


def convolution(*targets: str) -> mx.array:
    rng = np.random.default_rng(3)
    spec = random_spec([(0, 1, 1, 4), (1, 1, 0, 4)], rng)
    shapes = {
        "x": (5, spec.dim_x),
        "y": (20, spec.dim_y),
        "w": (20, spec.n_weights),
        "out": (5, spec.dim_out),
    }
    arrays = {k: random_array(s) for k, s in shapes.items() if len(targets) > 1 or k not in targets}
    found = gpu.convolution(spec, targets, arrays, random_edges(5, 20, rng))
    return mx.concatenate([a.reshape(-1) for a in found])


def convolution_from_table(*targets: str) -> mx.array:
    rng = np.random.default_rng(4)
    spec = random_spec([(0, 1, 1, 4), (1, 1, 0, 4)], rng)
    shapes = {
        "x": (5, spec.dim_x),
        "y": (20, spec.dim_y),
        "h": (20, 3),
        "table": (9, spec.n_weights),
        "out": (5, spec.dim_out),
    }
    arrays = {k: random_array(s) for k, s in shapes.items() if len(targets) > 1 or k not in targets}
    rows = mx.array(rng.integers(0, 7, 20).astype(np.int32))
    edges = random_edges(5, 20, rng)
    found = gpu.radial_convolution(spec, targets, arrays, edges, rows, 3, 9)
    return mx.concatenate([a.reshape(-1) for a in found])


def product_of_items() -> mx.array:
    product = o3.FullTensorProduct("2x0e+2x1o", "1x1o", use_custom_kernel=True)
    x, y = random_array((5, 8)), random_array((5, 3))
    value, (slope,) = mx.vjp(lambda a: product(a, y), [x], [random_array((5, 24))])
    return mx.concatenate([value[0].reshape(-1), slope.reshape(-1)])


PTR = mx.array([0, 3, 3, 70, 71])
CASES = {
    "activation": lambda: gpu.activation("silu", 1, random_array((5, 7))),
    "gather": lambda: gpu.gather(random_array((5, 3)), mx.array([4, 0, 0, 7])),
    "starts": lambda: gpu.segment_starts(mx.array([0, 0, 2, 5]), 4),
    "sums by threads": lambda: gpu.segment_sum(random_array((71, 3)), PTR),
    "sums by blocks": lambda: gpu.segment_sum(random_array((71, 3)), mx.array([0, 71])),
    "harmonics": harmonics_pulled,
    **{f"linear map to {t}": lambda t=t: linear(t) for t in ("out", "x", "w", "y")},
    **{
        f"convolution to {''.join(t)}": lambda t=t: convolution(*t)
        for t in (("out",), ("x",), ("y", "w"), ("x", "y", "w"))
    },
    **{
        f"convolution from a table to {''.join(t)}": lambda t=t: convolution_from_table(*t)
        for t in (("out",), ("x",), ("table",), ("x", "y", "h"), ("x", "y", "h", "table"))
    },
    "product of items": product_of_items,
}


@pytest.mark.parametrize("name", CASES)
def test_the_same_numbers(name, monkeypatch):
    with emulated_gpu():
        narrow = CASES[name]()
        monkeypatch.setattr(generated, "WIDE_INDEX_FROM", 0)
        wide = CASES[name]()
    assert np.array(narrow).tobytes() == np.array(wide).tobytes()


@pytest.mark.parametrize(("limit", "word"), [(12, "int64_t"), (13, "int ")])
def test_largest_array_decides(limit, word, monkeypatch):
    seen = []

    def build(self, dialect, wide, types):
        seen.append(self.body(dialect, wide))
        return lambda **_: []

    monkeypatch.setattr(generated, "WIDE_INDEX_FROM", limit)
    monkeypatch.setattr(generated, "running_dialect", lambda: "metal")
    monkeypatch.setattr(GeneratedKernel, "_build", build)
    kernel = GeneratedKernel("k", ["x"], ["out"], "INDEX i = 0; out[i] = x[i];")
    kernel([mx.zeros((3,))], [(3, 4)], [mx.float32], 1, 32)
    assert seen[0].startswith(word)
