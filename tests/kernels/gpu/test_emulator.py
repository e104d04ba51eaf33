"""The emulator of Metal runs right kernels right."""

from __future__ import annotations

from itertools import pairwise

import mlx.core as mx
import numpy as np
import pytest
from msl_emulator import Launch, MetalKernel

pytestmark = pytest.mark.emulated

UNIT = """
inline float3 unit(float3 v) {
  float n2 = dot(v, v);
  return n2 > 0.0f ? v * metal::precise::rsqrt(n2) : float3(0.0f);
}
"""
HARMONICS = """
uint i = thread_position_in_grid.x;
if (i >= uint(vectors_shape[0])) return;
float3 u = unit(float3(vectors[3*i], vectors[3*i+1], vectors[3*i+2]));
device T* y = out + 9 * i;
const float s3 = 1.7320508f, s5 = 2.2360680f, s15 = 3.8729833f;
y[0] = T(1.0f);
y[1] = T(s3 * u.x); y[2] = T(s3 * u.y); y[3] = T(s3 * u.z);
y[4] = T(s15 * u.x * u.z);
y[5] = T(s15 * u.x * u.y);
y[6] = T(s5 * fma(1.5f * u.y, u.y, -0.5f));
y[7] = T(s15 * u.y * u.z);
y[8] = T(0.5f * s15 * (u.z * u.z - u.x * u.x));
"""
SEGMENT_SUM = """
constexpr uint NT = 256;
threadgroup float part[NT / 32];
uint seg = threadgroup_position_in_grid.x;
uint lid = thread_position_in_threadgroup.x;
uint lane = thread_index_in_simdgroup, sg = simdgroup_index_in_threadgroup;
float acc = 0.0f;
for (int j = rowptr[seg] + int(lid); j < rowptr[seg + 1]; j += int(NT)) acc += float(x[j]);
acc = simd_sum(acc);
if (lane == 0) part[sg] = acc;
threadgroup_barrier(mem_flags::mem_threadgroup);
if (sg == 0) {
  float p = lane < NT / 32 ? part[lane] : 0.0f;
  p = simd_sum(p);
  if (lane == 0) out[seg] = T(p);
}
"""
SCATTER = """
uint e = thread_position_in_grid.x, c = thread_position_in_grid.y;
uint C = src_shape[1];
int row = index[e];
atomic_fetch_add_explicit(&out[row * C + c], src[e * C + c], memory_order_relaxed);
"""


def harmonics(vectors: np.ndarray) -> np.ndarray:
    x, y, z = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).T
    s3, s5, s15 = np.sqrt([3, 5, 15])
    return np.stack(
        [
            *(x * 0 + 1, s3 * x, s3 * y, s3 * z, s15 * x * z, s15 * x * y),
            *(s5 * (1.5 * y * y - 0.5), s15 * y * z, 0.5 * s15 * (z * z - x * x)),
        ],
        axis=1,
    )


def segments() -> tuple[Launch, np.ndarray]:
    counts = np.array([0, 1, 700, 31, 32, 33, 257, 5, 0, 1000])
    ptr = np.concatenate([[0], np.cumsum(counts)])
    x = np.random.default_rng(1).normal(size=ptr[-1]).astype(np.float32)
    sums = np.array([x[a:b].sum(dtype=np.float64) for a, b in pairwise(ptr)])
    launch = Launch(
        inputs=[mx.array(x), mx.array(ptr.astype(np.int32))],
        shapes=[(10,)],
        dtypes=[mx.float32],
        grid=(2560, 1, 1),
        threadgroup=(256, 1, 1),
        template=[("T", mx.float32)],
    )
    return launch, sums


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(mx.float32, 1e-5), (mx.float16, 2e-3), (mx.bfloat16, 1e-2)]
)
def test_pointwise_kernel(dtype, tolerance):
    vectors = np.random.default_rng(0).normal(size=(293, 3)).astype(np.float32)
    kernel = MetalKernel("harmonics", ["vectors"], ["out"], HARMONICS, UNIT)
    launch = Launch(
        inputs=[mx.array(vectors)],
        shapes=[(293, 9)],
        dtypes=[dtype],
        grid=(293, 1, 1),
        threadgroup=(64, 1, 1),
        template=[("T", dtype)],
    )
    reference = harmonics(vectors.astype(np.float64))
    _, findings = kernel.verify(launch, [reference], tolerance)
    assert findings == []


def test_block_reduction():
    launch, sums = segments()
    kernel = MetalKernel("segment_sum", ["x", "rowptr"], ["out"], SEGMENT_SUM)
    _, findings = kernel.verify(launch, [sums], 1e-4)
    assert findings == []


def test_atomics():
    rng = np.random.default_rng(2)
    source, index = rng.normal(size=(300, 7)).astype(np.float32), rng.integers(0, 20, 300)
    reference = np.zeros((20, 7))
    np.add.at(reference, index, source)
    kernel = MetalKernel("scatter", ["src", "index"], ["out"], SCATTER, atomic_outputs=True)
    launch = Launch(
        inputs=[mx.array(source), mx.array(index.astype(np.int32))],
        shapes=[(20, 7)],
        dtypes=[mx.float32],
        grid=(300, 7, 1),
        threadgroup=(32, 4, 1),
        init_value=0,
    )
    _, findings = kernel.verify(launch, [reference], 1e-4)
    assert findings == []


def test_a_wrong_reference_is_told_from_a_right_one():
    launch, sums = segments()
    kernel = MetalKernel("segment_sum", ["x", "rowptr"], ["out"], SEGMENT_SUM)
    sums[3] += 0.01
    _, findings = kernel.verify(launch, [sums], 1e-4)
    assert findings == ["output 0 differs from the reference by 0.01"]
