"""Kernels with offsets of 64 bits, which arrays of 2^31 elements need, on small arrays."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from emulated_gpu import emulated_gpu, random_array
from linear_maps import arrays_of, spec_of

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


PTR = mx.array([0, 3, 3, 70, 71])
CASES = {
    "activation": lambda: gpu.activation("silu", 1, random_array((5, 7))),
    "gather": lambda: gpu.gather(random_array((5, 3)), mx.array([4, 0, 0, 7])),
    "starts": lambda: gpu.segment_starts(mx.array([0, 0, 2, 5]), 4),
    "sums by threads": lambda: gpu.segment_sum(random_array((71, 3)), PTR),
    "sums by blocks": lambda: gpu.segment_sum(random_array((71, 3)), mx.array([0, 71])),
    "harmonics": harmonics_pulled,
    **{f"linear map to {t}": lambda t=t: linear(t) for t in ("out", "x", "w", "y")},
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

    def build(self, dialect, wide):
        seen.append(self.body(dialect, wide))
        return lambda **_: []

    monkeypatch.setattr(generated, "WIDE_INDEX_FROM", limit)
    monkeypatch.setattr(generated, "running_dialect", lambda: "cuda")
    monkeypatch.setattr(GeneratedKernel, "_build", build)
    kernel = GeneratedKernel("k", ["x"], ["out"], "INDEX i = 0; out[i] = x[i];")
    kernel([mx.zeros((3,))], [(3, 4)], [mx.float32], 1, 32)
    assert seen[0].startswith(word)
