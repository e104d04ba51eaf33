"""One text, two dialects: what each word means, and the guards of a call."""

from __future__ import annotations

import contextlib
from itertools import pairwise

import mlx.core as mx
import numpy as np
import pytest
from emulated_gpu import assert_close, emulated_gpu, random_array
from nvrtc import compile_text, mlx_text

from mlpot.kernels.gpu import (
    GeneratedKernel,
    device_refusal,
    dialect,
    generated,
    grid_refusal,
    literal,
)
from mlpot.kernels.gpu.dialect import translate_body, translate_header
from mlpot.kernels.gpu.nvrtc import CannotCompileError

BLOCK_SUM = f"""
    SHARED float part[4];
    const int row = BLOCK_X;
    float sum = 0.0f;
    for (INDEX i = ptr[row] + THREAD_X; i < ptr[row + 1]; i += THREADS_X)
        sum += twice(LOAD(x, i));
    sum = SIMD_SUM(sum * {literal(-0.25)});
    if (LANE == 0) part[WARP] = sum;
    BARRIER();
    if (THREAD_X == 0) out[row] = part[0] + part[1] + part[2] + part[3];
"""
TWICE = (
    "CONSTANT float factor[1] = {2.0f};\nFUNCTION float twice(float a) { return factor[0] * a; }\n"
)


@pytest.mark.emulated
def test_sums_of_blocks():
    kernel = GeneratedKernel("block_sum", ["x", "ptr"], ["out"], BLOCK_SUM, TWICE)
    ptr = np.array([0, 1, 1, 300, 333])
    x = random_array((333,))
    with emulated_gpu() as gpu:
        (out,) = kernel([x, mx.array(ptr)], [(4,)], [mx.float32], blocks=4, threads=128)
    sums = [-0.5 * np.array(x, np.float64)[a:b].sum() for a, b in pairwise(ptr)]
    assert_close(out, sums, 1e-6)
    assert gpu.kernels == ["block_sum"]


@pytest.mark.emulated
def test_ids_and_shuffles_in_three_dimensions():
    body = """
        const int i = GLOBAL_X + 8 * (GLOBAL_Y + 8 * GLOBAL_Z);
        const int index = THREAD_X + THREADS_X * (THREAD_Y + THREADS_Y * THREAD_Z);
        const int block = BLOCK_X + BLOCKS_X * (BLOCK_Y + BLOCKS_Y * BLOCK_Z);
        const float next = SHUFFLE_DOWN(float(LANE), 1);
        out[4 * i] = float(100 * block + index);
        out[4 * i + 1] = float(100 * WARP + LANE);
        out[4 * i + 2] = SHUFFLE_XOR(float(index), 5) + SHUFFLE(x[0], 31);
        out[4 * i + 3] = LANE < 31 ? next : -1.0f;
    """
    kernel = GeneratedKernel("ids", ["x"], ["out"], body)
    with emulated_gpu():
        (out,) = kernel(
            [mx.array([0.5])], [(4, 8, 8, 4)], [mx.float32], blocks=(2, 1, 2), threads=(4, 8, 2)
        )
    z, y, x = np.meshgrid(*(np.arange(n) for n in (4, 8, 8)), indexing="ij")
    thread = x % 4 + 4 * (y % 8 + 8 * (z % 2))
    block = x // 4 + 2 * (z // 2)
    lane = thread % 32
    wanted = [
        *(100 * block + thread, 100 * (thread // 32) + lane, (thread ^ 5) + 0.5),
        np.where(lane < 31, lane + 1, -1),
    ]
    assert np.array_equal(np.array(out), np.stack(wanted, axis=-1))


@pytest.mark.emulated
@pytest.mark.parametrize(("dtype", "word"), [(mx.float16, "FLOAT16"), (mx.bfloat16, "BFLOAT16")])
def test_short_number_types(dtype, word):
    body = f"if (GLOBAL_X < x_shape[0]) out[GLOBAL_X] = {word}(3.0f * float(x[GLOBAL_X]));"
    kernel = GeneratedKernel("triple", ["x"], ["out"], body)
    x = random_array((37,), dtype)
    with emulated_gpu():
        (out,) = kernel([x], [(37,)], [dtype], blocks=2, threads=32)
    assert mx.array_equal(out, (3.0 * x.astype(mx.float32)).astype(dtype))


@pytest.mark.emulated
@pytest.mark.parametrize("function", ["exp", "log", "sqrt", "rsqrt", "sin", "cos", "tanh", "floor"])
def test_functions(function):
    body = f"if (GLOBAL_X < x_shape[0]) out[GLOBAL_X] = {function.upper()}(x[GLOBAL_X]);"
    x = mx.abs(random_array((5,))) + 0.1
    with emulated_gpu():
        (out,) = GeneratedKernel(function, ["x"], ["out"], body)([x], [(5,)], [mx.float32], 1, 32)
    wanted = {"rsqrt": lambda a: a**-0.5}.get(function) or getattr(np, function)
    assert_close(out, wanted(np.array(x, np.float64)), 1e-6)


@pytest.mark.emulated
def test_nvrtc_refuses_a_wrong_text():
    text = mlx_text("k", [("x", mx.float32, 1)], [("out", mx.float32)], "out[0] = y[0];")
    with pytest.raises(CannotCompileError, match='identifier "y" is undefined'):
        compile_text(text, "sm_80")


def test_words_are_whole_words():
    assert (
        translate_body("int BLOCK_XY, INDEX_2; INDEX i;", "cuda") == "int BLOCK_XY, INDEX_2; int i;"
    )
    assert translate_body("INDEX i;", "metal", wide=True) == "int64_t i;"


def test_header_without_thread_ids():
    with pytest.raises(ValueError, match="THREAD_X; pass it"):
        translate_header("FUNCTION int f() { return THREAD_X; }", "metal")


@pytest.mark.parametrize(
    ("value", "text"),
    [(1, "1.000000000e+00f"), (-1 / 3, "(-3.333333333e-01f)"), (0.1, "1.000000000e-01f")],
)
def test_literals(value, text):
    assert literal(value) == text


def test_another_text_has_another_name():
    names = {GeneratedKernel("k", ["x"], ["o"], body).name for body in ("o[0] = 1;", "o[0] = 2;")}
    assert len(names) == 2


@pytest.mark.parametrize(
    ("blocks", "threads", "reason"),
    [
        ((1, 1, 1), (32, 8, 1), None),
        (1, (32, 8, 2), "a block of 512 threads"),
        (generated.MAX_GRID // 64, 64, None),
        (generated.MAX_GRID // 64 + 1, 64, "the most is 2147483647 an axis"),
        ((1, generated.MAX_BLOCKS_YZ), 32, None),
        ((1, 1, generated.MAX_BLOCKS_YZ + 1), 32, "65536 blocks along y or z"),
    ],
)
def test_sizes_of_grids(blocks, threads, reason):
    found = grid_refusal(blocks, threads)
    assert found is None if reason is None else reason in (found or "")


def test_without_a_gpu():
    kernel = GeneratedKernel("k", ["x"], ["out"], "out[0] = x[0];")
    if device_refusal() is None:
        (out,) = kernel([mx.array([3.0])], [(1,)], [mx.float32], 1, 1)
        assert out.item() == 3.0
        return
    with pytest.raises(ValueError, match="needs a GPU"):
        kernel([mx.array([3.0])], [(1,)], [mx.float32], 1, 1)


@pytest.mark.emulated
def test_a_grid_that_is_too_large_is_refused_before_it_runs():
    kernel = GeneratedKernel("k", ["x"], ["out"], "out[0] = x[0];")
    with emulated_gpu(), pytest.raises(ValueError, match="cannot run on a block of 2048 threads"):
        kernel([mx.array([3.0])], [(1,)], [mx.float32], 1, 2048)


@pytest.mark.parametrize("extra", [0, 1])
def test_memory_of_a_block(extra):
    half = dialect.MAX_SHARED_BYTES // 8
    body = f"SHARED float a[{half}];\n  SHARED int b[{half + extra}];\nout[0] = 0.0f;"
    assert dialect.shared_bytes(body) == dialect.MAX_SHARED_BYTES + 4 * extra
    with pytest.raises(AssertionError, match="too much") if extra else contextlib.nullcontext():
        GeneratedKernel("much", [], ["out"], body)
