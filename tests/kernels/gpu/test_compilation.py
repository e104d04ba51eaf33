"""CUDA kernels compiled by the package: what MLX is handed, what is kept, what fails how."""

from __future__ import annotations

import contextlib
import os
import threading
from unittest import mock

import mlx.core as mx
import numpy as np
import pytest

from mlpot import kernels
from mlpot.kernels.gpu import (
    GeneratedKernel,
    code_cache,
    compilation,
    compiled_together,
    generated,
    nvrtc,
)
from mlpot.kernels.gpu.cuda_text import kernel_text
from mlpot.kernels.gpu.nvrtc import CannotCompileError, Code
from mlpot.kernels.replay import Replayed

pytestmark = pytest.mark.emulated

FLOAT = mx.float32


class ImaginedGPU:
    """Records what MLX would be handed; every kernel gives ones.

    Attributes:
        precompiled: arguments of each call of ``mx.fast.precompiled_cuda_kernel``.
        by_mlx: names of kernels that ``mx.fast.cuda_kernel`` was given.
    """

    def __init__(self) -> None:
        self.precompiled: list[dict] = []
        self.by_mlx: list[str] = []

    def run(self, **arguments):
        self.precompiled.append(arguments)
        return self._ones(**arguments)

    def make(self, *, name, **_):
        self.by_mlx.append(name)
        return self._ones

    def _ones(self, *, output_shapes, output_dtypes, **_):
        return [mx.ones(s, d) for s, d in zip(output_shapes, output_dtypes, strict=True)]


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    monkeypatch.setenv("MLPOT_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("MLPOT_NVRTC", raising=False)
    imagined = ImaginedGPU()
    info = {"compute_capability_major": 9, "compute_capability_minor": 0}
    with contextlib.ExitStack() as stack:
        for place, name, value in (
            (mx.cuda, "is_available", lambda: True),
            (mx.metal, "is_available", lambda: False),
            (mx, "device_info", lambda *_: info),
            (mx.fast, "precompiled_cuda_kernel", imagined.run),
            (mx.fast, "cuda_kernel", imagined.make),
        ):
            stack.enter_context(mock.patch.object(place, name, value))
        compilation.device_architecture.cache_clear()
        compilation.forget()
        yield imagined
    compilation.device_architecture.cache_clear()
    compilation.forget()


def scaled(factor: float = 2.0, long: bool = False) -> GeneratedKernel:
    body = f"if (GLOBAL_X < x_shape[0]) out[GLOBAL_X] = {factor}f * x[GLOBAL_X];"
    body += "// a comment\n" * (compilation.SHORT_TEXT // 10) if long else ""
    return GeneratedKernel("scaled", ["x"], ["out"], body)


def call(kernel: GeneratedKernel, n: int = 5) -> mx.array:
    return kernel([mx.ones((n,))], [(n,)], [FLOAT], blocks=1, threads=32)[0]


def test_parameters_of_the_text_and_sizes_behind_them():
    text = kernel_text(
        "k",
        [("x", FLOAT, 3), ("index", mx.int32, 1), ("n", mx.uint32, 1), ("s", FLOAT, 0)],
        [("out", FLOAT), ("rest", mx.float16)],
        "out[0] = x_shape[1] * index_shape[0] * x_ndim + n[0] + x_shape_of_mine;",
        "// header\n",
    )
    wanted = f"""// header

extern "C" __global__ void {text.name}(
    const float* x,
    const int32_t* index,
    const uint32_t* n,
    const float* s,
    float* out,
    __half* rest,
    const int x_size0,
    const int x_size1,
    const int x_size2,
    const int index_size0) {{
const int x_shape[3] = {{x_size0, x_size1, x_size2}};
const int x_ndim = 3;
const int index_shape[1] = {{index_size0}};
out[0] ="""
    assert wanted in text.text
    assert text.sizes == ((0, 0), (0, 1), (0, 2), (1, 0))
    assert text.name.startswith("k_") and "#include <cuda_fp16.h>" in text.text


def test_a_text_without_short_types_has_no_headers():
    text = kernel_text("k", [("x", FLOAT, 1)], [("out", FLOAT)], "out[0] = x[0];", "")
    assert "#include" not in text.text and "MLPOT_FLOAT32_ONLY" in text.text


def test_other_types_or_bodies_have_other_names():
    def name(dtype, body):
        return kernel_text("k", [("x", dtype, 1)], [("out", FLOAT)], body, "").name

    found = {name(FLOAT, "a"), name(FLOAT, "b"), name(mx.int32, "a"), name(FLOAT, "a")}
    assert len(found) == 3


def test_strides_are_refused():
    with pytest.raises(ValueError, match="x_strides"):
        kernel_text("k", [("x", FLOAT, 1)], [("out", FLOAT)], "out[0] = x_strides[0];", "")


def test_what_mlx_is_handed(gpu):
    kernel = GeneratedKernel(
        "k", ["a", "b"], ["out"], "out[0] = float(a_shape[1] + b_shape[0] + a_shape[0]) + b[0];"
    )
    inputs = [mx.zeros((7, 3)), mx.zeros((11,), dtype=mx.int32)]
    kernel(inputs, [(4, 2)], [mx.float16], blocks=(3, 2), threads=(32, 2))
    (given,) = gpu.precompiled
    text = kernel.cuda_text(((FLOAT, 2), (mx.int32, 1)), (mx.float16,), wide=False)
    assert given["name"] == text.name
    assert given["scalars"] == [7, 3, 11] and all(type(n) is int for n in given["scalars"])
    assert text.sizes == ((0, 0), (0, 1), (1, 0))
    assert given["inputs"][0] is inputs[0] and given["inputs"][1] is inputs[1]
    assert given["output_shapes"] == [(4, 2)] and given["output_dtypes"] == [mx.float16]
    assert given["grid"] == (96, 4, 1) and given["threadgroup"] == (32, 2, 1)
    assert given["ensure_row_contiguous"] is True
    # An ELF file that has the function under this very name.
    assert given["compiled_source"].startswith(b"\x7fELF")
    assert b"\0" + text.name.encode() + b"\0" in given["compiled_source"]
    assert gpu.by_mlx == []


def test_ints_of_64_bits_are_asked_for_where_arrays_are_large(gpu, monkeypatch):
    monkeypatch.setattr(generated, "WIDE_INDEX_FROM", 4)
    call(scaled(), 5)
    assert "_wide_" in gpu.precompiled[0]["name"]


def test_kept_on_disk_and_in_memory(gpu):
    call(scaled())
    call(scaled())
    assert compilation.status() == compilation.Status(
        compiled=1, seconds=compilation.status().seconds
    )
    compilation.forget()
    with mock.patch.object(nvrtc, "compile_text", side_effect=AssertionError):
        call(scaled())
    assert compilation.status() == compilation.Status(from_disk=1)
    first, *others = (given["compiled_source"] for given in gpu.precompiled)
    assert all(code == first for code in others) and len(others) == 2


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty", "text", "format", "folder"])
def test_damaged_files_are_made_anew(gpu, damage):
    call(scaled())
    (path,) = code_cache.folder().iterdir()
    content = path.read_bytes()
    if damage == "folder":
        path.unlink()
        path.mkdir()
    else:
        path.write_bytes(
            {
                "truncate": content[:-1],
                "flip": content[:-1] + bytes([content[-1] ^ 1]),
                "empty": b"",
                "text": b"[1, 2]\n",
                "format": content.replace(b'"format": 1', b'"format": 0'),
            }[damage]
        )
    compilation.forget()
    call(scaled())
    status = compilation.status()
    assert status.compiled == 1 and status.from_disk == 0
    if damage == "folder":
        assert "cannot be written" in status.reason
    else:
        assert path.read_bytes() == content


def test_a_cache_that_cannot_be_written(gpu, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MLPOT_CACHE_DIR", str(tmp_path / "file"))
    call(scaled())
    assert "cannot be written" in compilation.status().reason
    assert compilation.status().compiled == 1 and gpu.by_mlx == []


@pytest.mark.parametrize(
    ("code", "driver", "suits"),
    [
        (Code("cubin", b"", (13, 5)), (13, 0), True),
        (Code("cubin", b"", (13, 5)), (12, 9), False),
        (Code("cubin", b"", (12, 9)), (13, 0), True),
        (Code("ptx", b"", (13, 5)), (13, 4), False),
        (Code("ptx", b"", (13, 5)), (13, 5), True),
        (Code("ptx", b"", (13, 5)), None, True),
    ],
)
def test_code_that_suits_the_driver(code, driver, suits):
    with mock.patch.object(code_cache, "driver_version", return_value=driver):
        assert code_cache.suits_driver(code) is suits


def test_code_for_a_newer_driver_is_left_on_disk(gpu):
    call(scaled())
    compilation.forget()
    with mock.patch.object(code_cache, "driver_version", return_value=(12, 0)):
        call(scaled())
    # The compiler of this process is too new as well: MLX, which has its own, is asked.
    assert len(gpu.by_mlx) == 1 and "newer than the driver" in compilation.status().reason


def test_other_architectures_have_other_files(gpu):
    text = scaled().cuda_text(((FLOAT, 1),), (FLOAT,), wide=False)
    for architecture in ("sm_80", "sm_90a"):
        compilation.compile_all([text], architecture)
    names = {path.name for path in code_cache.folder().iterdir()}
    assert names == {f"{text.name}.sm_80", f"{text.name}.sm_90a"}


def test_an_architecture_that_is_too_new_gets_text_for_the_driver():
    code = nvrtc.compile_text(
        kernel_text("k", [], [("out", FLOAT)], "out[0] = 1.0f;", "").text, "sm_990a"
    )
    assert code.kind == "ptx" and b".entry k_" in code.data and code.data.endswith(b"\0")
    with pytest.raises(CannotCompileError, match="does not compile for sm_20"):
        nvrtc.compile_text("", "sm_20")


def test_a_text_that_does_not_compile_is_left_to_mlx(gpu):
    kernel = GeneratedKernel("wrong", ["x"], ["out"], "out[0] = y[0];")
    call(kernel)
    call(kernel)
    assert len(gpu.by_mlx) == 1 and gpu.precompiled == []
    status = compilation.status()
    assert len(status.left_to_mlx) == 1 and '"y" is undefined' in status.reason
    assert "y" in str(kernels.report())


def test_without_a_compiler(gpu):
    with mock.patch.object(nvrtc, "compile_text", side_effect=CannotCompileError("no NVRTC")):
        call(scaled())
    assert len(gpu.by_mlx) == 1 and "no NVRTC" in compilation.status().reason


def test_switched_off(gpu, monkeypatch):
    monkeypatch.setenv("MLPOT_NVRTC", "0")
    call(scaled())
    assert len(gpu.by_mlx) == 1 and gpu.precompiled == []
    assert "MLPOT_NVRTC=0" in compilation.status().reason
    assert "MLPOT_NVRTC=0" in str(kernels.report())


def test_names_that_mlx_keeps_kernels_by_differ_with_types(gpu, monkeypatch):
    monkeypatch.setenv("MLPOT_NVRTC", "0")
    kernel = GeneratedKernel("copy", ["x"], ["out"], "out[0] = x[0];")
    for dtype in (FLOAT, mx.int32):
        kernel([mx.ones((1,), dtype)], [(1,)], [dtype], 1, 32)
    assert len(set(gpu.by_mlx)) == 2


def test_missing_kernels_are_compiled_together(gpu):
    makers = [scaled(factor, long=True) for factor in (1.0, 2.0, 3.0)]
    threads, traces = set(), []
    real = nvrtc.compile_text
    both = threading.Barrier(2, timeout=30)

    def compile_text(*arguments):
        if len(threads) < 2:
            threads.add(threading.get_ident())
            both.wait()  # until another thread compiles too
        return real(*arguments)

    def total():
        traces.append(None)
        return sum((call(kernel) for kernel in makers), mx.zeros(()))

    with (
        mock.patch.object(nvrtc, "compile_text", compile_text),
        mock.patch.object(os, "cpu_count", return_value=2),
    ):
        found = compiled_together(total)
    assert np.array(found).tolist() == [3.0] * 5
    assert len(traces) == 2 and len(threads) == 2
    assert len(gpu.precompiled) == 3  # of the second time; at first MLX's were taken
    assert compilation.status().compiled == 3
    compilation.forget()
    compiled_together(total)
    assert len(traces) == 3 and compilation.status().from_disk == 3


def test_short_kernels_are_there_at_once(gpu):
    traces = []

    def function():
        traces.append(None)
        return call(scaled())

    compiled_together(function)
    assert len(traces) == 1 and len(gpu.precompiled) == 1


def test_within_another_the_outer_one_decides(gpu):
    kernel = scaled(long=True)
    traces = []

    def inner():
        traces.append(None)
        return call(kernel)

    compiled_together(lambda: compiled_together(inner))
    assert len(traces) == 2


def test_what_it_wraps_is_called_plainly_without_a_gpu():
    assert compiled_together(lambda a, b: a - b, 5, 3) == 2


def test_recorded_functions_compile_together(gpu):
    kernel = scaled(long=True)
    replayed = Replayed(lambda arrays: {"out": call(kernel) + arrays["x"]})
    for _ in range(2):
        found = replayed({"x": mx.ones((5,))})["out"]
        assert np.array(found).tolist() == [2.0] * 5
    assert replayed.n_traces == 1 and len(gpu.precompiled) == 1


def test_a_failure_in_the_function_leaves_nothing_behind(gpu):
    def wrong():
        raise ValueError("as it is")

    with pytest.raises(ValueError, match="as it is"):
        compiled_together(wrong)
    call(scaled(long=True))
    assert len(gpu.precompiled) == 1
