"""The emulator of Metal finds planted faults, one test each."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from msl_emulator import Launch, MetalKernel

pytestmark = pytest.mark.emulated

IDS = "uint i = thread_position_in_grid.x; uint l = thread_position_in_threadgroup.x;\n"
TABLE = "constant float tab[3] = {1, 2, 3};\n"
ATOMIC_ADD = "atomic_fetch_add_explicit(&out[0], x[i], memory_order_relaxed);"
EXCHANGE = (
    "out[i] = x[i]; threadgroup_barrier(mem_flags::mem_threadgroup); float v = out[i ^ 1];"
    "threadgroup_barrier(mem_flags::mem_threadgroup); out[i] = v;"
)
BARRIER = "threadgroup_barrier(mem_flags::mem_threadgroup);"


def findings(
    body: str,
    header: str = "",
    n_in: int = 64,
    n_out: int = 64,
    grid: int = 64,
    dtype: mx.Dtype = mx.float32,
    init_value: float | None = None,
    atomic: bool = False,
    timeout_s: float = 60.0,
) -> str:
    """What is found in a kernel of blocks of 32 threads that reads x and writes out."""
    x = mx.array(np.random.default_rng(3).normal(size=n_in).astype(np.float32))
    kernel = MetalKernel("k", ["x"], ["out"], IDS + body, header, atomic)
    launch = Launch([x], [(n_out,)], [dtype], (grid, 1, 1), (32, 1, 1), (), init_value=init_value)
    return "; ".join(kernel.verify(launch, timeout_s=timeout_s)[1])


def test_nothing_is_found_in_a_right_kernel():
    assert findings("out[i] = x[i];") == ""


# Name, body, a part of the finding.
OF_THE_LANGUAGE = [
    ("missing semicolon", "out[i] = x[i]", "expected ';'"),
    ("double", "double d = x[i]; out[i] = d;", "poisoned identifier"),
    ("std", "out[i] = std::sqrt(x[i]);", "poisoned identifier"),
    ("unknown function", "out[i] = erf(x[i]);", "undeclared identifier 'erf'"),
    ("type without declaration", "out[i] = T(x[i]);", "undeclared identifier 'T'"),
    ("ambiguous maximum", "out[i] = max(x[i], 0);", "ambiguous"),
    ("write to an input", "x[i] = 0; out[i] = 1;", "read-only"),
    ("pointer without space", "const float* p = x + i; out[i] = *p;", "cannot initialize"),
    ("cast drops the space", "out[i] = ((const float4*)x)[i / 4].x;", "without an address space"),
    (
        "threadgroup as device",
        "threadgroup float s[32]; device float* p = s; p[l] = x[i]; out[i] = p[l];",
        "cannot initialize",
    ),
    ("static", "static float s[32]; s[l] = x[i]; out[i] = s[l];", "`static` variable"),
    ("lambda", "auto f = [&](float a) { return a * x[i]; }; out[i] = f(2.0f);", "not in MSL"),
    ("never set", "float a; if (x[i] > 0) a = 1; out[i] = a;", "uninitialized"),
]


@pytest.mark.parametrize(
    ("body", "found"), [c[1:] for c in OF_THE_LANGUAGE], ids=[c[0] for c in OF_THE_LANGUAGE]
)
def test_faults_of_the_language(body, found):
    assert found in findings(body)


def test_write_to_a_constant_table():
    assert "cannot assign" in findings("tab[0] = 1; out[i] = tab[l % 3];", TABLE)


def test_small_input_passed_to_a_function_of_device_memory():
    helper = "inline float h(const device float* p) { return p[0]; }\n"
    assert "no matching function" in findings("out[i] = h(x);", helper, n_in=4)
    assert findings("out[i] = h(x);", helper, n_in=8) == ""


def test_recursion():
    helper = "inline float f(int n) { return n < 2 ? 1.0f : n * f(n - 1); }\n"
    assert "recursion in f" in findings("out[i] = f(int(l % 5));", helper)


def test_float_to_bfloat_without_cast():
    assert "no viable overloaded" in findings("out[i] = x[i];", dtype=mx.bfloat16)
    assert findings("out[i] = bfloat16_t(x[i]);", dtype=mx.bfloat16) == ""


def test_atomic_half():
    found = findings(ATOMIC_ADD, dtype=mx.float16, init_value=0, atomic=True)
    assert "MSL has no atomic of this type" in found


def test_memory_order():
    found = findings(ATOMIC_ADD.replace("relaxed", "seq_cst"), init_value=0, atomic=True)
    assert "memory_order_seq_cst" in found


def test_atomic_output_without_a_first_value():
    found = findings(ATOMIC_ADD, n_out=1, atomic=True)
    assert "differs with other bytes in unwritten memory" in found


OF_MEMORY = [
    ("index -1", "out[i - 1] = x[i];", "AddressSanitizer"),
    ("read one past the end", "out[i] = x[i + 1];", "AddressSanitizer"),
    ("read far away", "out[i] = x[i + 40000000u];", "AddressSanitizer"),
    (
        "past a threadgroup array",
        f"threadgroup float s[31]; s[l] = x[i]; {BARRIER} out[i] = s[l];",
        "out of bounds",
    ),
    (
        "past an array of the thread",
        "float a[3]; for (int k = 0; k <= 3; ++k) a[k] = x[i] * k; out[i] = a[l % 3];",
        "out of bounds",
    ),
    (
        "misaligned vector",
        "out[i] = (*(const device float4*)(x + i % 60)).x;",
        "AddressSanitizer",
    ),
    (
        "too much threadgroup memory",
        "threadgroup float s[8200]; s[l] = x[i]; out[i] = s[l];",
        "is over 32768",
    ),
    (
        "threadgroup memory not written",
        f"threadgroup float s[64]; s[l] = x[i]; {BARRIER} out[i] = s[63 - l];",
        "differs with other bytes",
    ),
    ("element not written", "if (i != 5) out[i] = x[i];", "differs with other bytes"),
    (
        "overflow of int",
        "int k = 2147483647; k += int(l); out[i] = float(k);",
        "signed integer overflow",
    ),
]


@pytest.mark.parametrize(
    ("body", "found"), [c[1:] for c in OF_MEMORY], ids=[c[0] for c in OF_MEMORY]
)
def test_faults_of_memory(body, found):
    assert found in findings(body)


def test_endless_loop():
    found = findings("int k = 0; while (k < int(l) + 1) { out[i] = x[i]; }", timeout_s=3.0)
    assert "does not end" in found


def test_grid_larger_than_the_arrays():
    assert "AddressSanitizer" in findings("out[i] = x[i];", grid=96)
    assert findings("if (i < 64) out[i] = x[i];", grid=96) == ""


OF_THREADS = [
    (
        "return before a barrier",
        f"threadgroup float s[32]; if (l >= 20) return; s[l] = x[i]; {BARRIER} out[i] = s[19 - l];",
        "not reached by every thread",
    ),
    (
        "divergent sum",
        "float v = 0; if (l < 16) v = simd_sum(x[i]); out[i] = v;",
        "simd_sum after some lanes returned",
    ),
    (
        "lane that has returned",
        "if (l > 15) { out[i] = 0; return; } out[i] = simd_shuffle(x[i], ushort(l + 8));",
        "simd_shuffle from inactive lane",
    ),
    ("sum without atomics", "out[l % 7] += x[i];", "[race] write/write on device memory"),
    ("same value written twice", "out[0] = 1.0f;", "[race] write/write on device memory"),
    ("barrier that leaves device memory out", EXCHANGE, "[race] read/write on device memory"),
]


@pytest.mark.parametrize(
    ("body", "found"), [c[1:] for c in OF_THREADS], ids=[c[0] for c in OF_THREADS]
)
def test_faults_between_threads(body, found):
    assert found in findings(body, init_value=0)


SUM_OF_BLOCK = """
threadgroup float part[32];
part[l] = x[i];
threadgroup_barrier(mem_flags::mem_threadgroup);
if (l == 0) {
  float sum = 0.0f;
  for (int k = 0; k < 32; ++k) sum += part[k];
  out[i / 32] = sum;
}
"""


@pytest.mark.parametrize(
    ("barrier", "found"),
    [
        (BARRIER, ""),
        ("", "[race] read/write on threadgroup memory"),
        ("threadgroup_barrier(mem_flags::mem_none);", "on threadgroup memory"),
        ("if (l < 16) " + BARRIER, "not reached by every thread"),
    ],
    ids=["right", "missing", "of no memory", "of some threads"],
)
def test_barriers(barrier, found):
    said = findings(SUM_OF_BLOCK.replace(BARRIER, barrier), n_out=2)
    assert found in said if found else said == ""
