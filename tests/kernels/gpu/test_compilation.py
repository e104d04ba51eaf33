"""CUDA kernels compiled by the package: what MLX is handed, what is kept, what fails how."""

from __future__ import annotations

from unittest import mock

import mlx.core as mx
import pytest
from imagined_gpu import FLOAT, call, imagined_gpu, scaled

from mlpot import kernels
from mlpot.kernels.gpu import (
    GeneratedKernel,
    code_cache,
    compilation,
    generated,
    nvrtc,
)
from mlpot.kernels.gpu.cuda_text import kernel_text
from mlpot.kernels.gpu.nvrtc import CannotCompileError, Code

pytestmark = pytest.mark.emulated


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    with imagined_gpu(monkeypatch, tmp_path) as imagined:
        yield imagined


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
