"""Compiles CUDA kernels without a GPU, from the text that MLX would compile.

MLX's CUDA backend puts two headers before a kernel. What kernels here use of them (the types of
shapes, float16 and bfloat16; nothing of cooperative groups) is given by the few lines of
``_HEADERS``; the headers of float16 and bfloat16 are CUDA's own, of nvidia-cuda-runtime.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import mlx.core as mx

#: What the kernels are compiled for: H100 and H200 as MLX does it there, and A100.
ARCHITECTURES = ("sm_90a", "sm_80")

_TYPES = {
    mx.float32: "float",
    mx.float16: "__half",
    mx.bfloat16: "__nv_bfloat16",
    mx.bool_: "bool",
    mx.int8: "int8_t",
    mx.int16: "int16_t",
    mx.int32: "int32_t",
    mx.int64: "int64_t",
    mx.uint8: "uint8_t",
    mx.uint16: "uint16_t",
    mx.uint32: "uint32_t",
    mx.uint64: "uint64_t",
}

_HEADERS = {
    "cooperative_groups.h": "namespace cooperative_groups {}",
    "mlx/backend/cuda/device/utils.cuh": """
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long uint64_t;
#include <cuda_bf16.h>
#include <cuda_fp16.h>
namespace mlx::core::cu {
template <typename T>
struct PerAxis {
  T values[10];
  __device__ T operator[](int i) const { return values[i]; }
};
using Shape = PerAxis<int32_t>;
using Strides = PerAxis<int64_t>;
}
""",
}


class CudaError(Exception):
    """NVRTC refuses a text; the message is its log."""


@dataclass(frozen=True)
class Compiled:
    """What came of a kernel.

    Args:
        registers: of each thread.
        spill_bytes: written to and read from local memory because registers ran out.
        cubin_bytes: size of the machine code.
    """

    registers: int
    spill_bytes: int
    cubin_bytes: int


def cuda_text(
    name: str,
    inputs: Sequence[tuple[str, mx.Dtype, int]],
    outputs: Sequence[tuple[str, mx.Dtype]],
    body: str,
    header: str = "",
) -> str:
    """The text that MLX's CUDA backend compiles.

    Args:
        name: of the function.
        inputs: name, type and number of dimensions of each.
        outputs: name and type of each.
        body: text between the braces.
        header: text before the kernel.
    """
    parameters = []
    for key, dtype, ndim in inputs:
        parameters.append(f"const {_TYPES[dtype]}* {key}")
        describing = (("shape", "Shape"), ("strides", "Strides"), ("ndim", "int"))
        for suffix, kind in describing if ndim else ():
            if f"{key}_{suffix}" in body:
                parameters.append(f"const __grid_constant__ {kind} {key}_{suffix}")
    parameters += [f"{_TYPES[dtype]}* {key}" for key, dtype in outputs]
    return (
        '#include "mlx/backend/cuda/device/utils.cuh"\n#include <cooperative_groups.h>\n'
        "#define inf __int_as_float(0x7f800000)\n"
        f"{header}namespace mlx::core::cu {{\n\nnamespace cg = cooperative_groups;\n\n"
        f"__global__ void {name}(\n    " + ",\n    ".join(parameters) + f") {{\n{body}\n}}\n\n}}\n"
    )


@functools.lru_cache(maxsize=1)
def _folder() -> Path:
    spec = importlib.util.find_spec("nvidia")
    folders = [Path(p) / "cu13" for p in (spec.submodule_search_locations or [])] if spec else []
    for folder in folders:
        if (folder / "include" / "cuda_fp16.h").exists() and list(folder.glob("lib/libnvrtc.so*")):
            return folder
    raise CudaError(
        "NVRTC or CUDA's headers are missing:  pip install nvidia-cuda-nvrtc nvidia-cuda-runtime"
        "   (or leave these tests out:  pytest -m 'not emulated')"
    )


@functools.lru_cache(maxsize=1)
def _library() -> ctypes.CDLL:
    # NVRTC looks for its second library by name: it is loaded first.
    for name in ("libnvrtc-builtins.so*", "libnvrtc.so*"):
        (path,) = [p for p in _folder().glob(f"lib/{name}") if "alt" not in p.name]
        library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    library.nvrtcGetErrorString.restype = ctypes.c_char_p
    return library


def _strings(texts: Sequence[str]) -> ctypes.Array:
    return (ctypes.c_char_p * len(texts))(*[text.encode() for text in texts])


def _check(code: int, log: str = "") -> None:
    if code:
        raise CudaError(log or _library().nvrtcGetErrorString(code).decode())


def _bytes(program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    _check(getattr(_library(), f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    buffer = ctypes.create_string_buffer(size.value)
    _check(getattr(_library(), f"nvrtcGet{what}")(program, buffer))
    return buffer.raw


def compile_text(text: str, architecture: str) -> Compiled:
    """Compile for one architecture, down to machine code.

    Raises:
        CudaError: with the compiler's log, if it does not compile.
    """
    library, program = _library(), ctypes.c_void_p()
    headers = _strings([*_HEADERS.values()]), _strings([*_HEADERS])
    _check(
        library.nvrtcCreateProgram(
            ctypes.byref(program), text.encode(), b"kernel.cu", len(_HEADERS), *headers
        )
    )
    try:
        options = [
            f"--gpu-architecture={architecture}",
            f"--include-path={_folder() / 'include'}",
            *("--std=c++17", "--ptxas-options=-v"),
        ]
        code = library.nvrtcCompileProgram(program, len(options), _strings(options))
        log = _bytes(program, "ProgramLog").decode(errors="replace")
        _check(code, log)
        cubin = _bytes(program, "CUBIN")
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))
    numbers = {
        key: sum(map(int, re.findall(pattern, log)))
        for key, pattern in {
            "registers": r"Used (\d+) registers",
            "spill_bytes": r"(\d+) bytes spill (?:stores|loads)",
        }.items()
    }
    return Compiled(cubin_bytes=len(cubin), **numbers)
