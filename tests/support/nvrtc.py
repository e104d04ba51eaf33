"""Compiles CUDA kernels without a GPU, also from the text that MLX would compile.

MLX's CUDA backend puts two headers before a kernel. What kernels here use of them (the types of
shapes, float16 and bfloat16; nothing of cooperative groups) is given by the few lines of
``_BEFORE``; the headers of float16 and bfloat16 are CUDA's own, of nvidia-cuda-runtime.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx

from mlpot.kernels.gpu import nvrtc
from mlpot.kernels.gpu.cuda_text import CUDA_TYPES
from mlpot.kernels.gpu.nvrtc import CannotCompileError

#: What the kernels are compiled for: H100 and H200 as MLX does it there, and A100.
ARCHITECTURES = ("sm_90a", "sm_80")

_BEFORE = """
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
namespace cooperative_groups {}
namespace mlx::core::cu {
template <typename T>
struct PerAxis {
  T values[10];
  __device__ T operator[](int i) const { return values[i]; }
};
using Shape = PerAxis<int32_t>;
using Strides = PerAxis<int64_t>;
}
"""


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


def mlx_text(
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
        parameters.append(f"const {CUDA_TYPES[dtype]}* {key}")
        describing = (("shape", "Shape"), ("strides", "Strides"), ("ndim", "int"))
        for suffix, kind in describing if ndim else ():
            if f"{key}_{suffix}" in body:
                parameters.append(f"const __grid_constant__ {kind} {key}_{suffix}")
    parameters += [f"{CUDA_TYPES[dtype]}* {key}" for key, dtype in outputs]
    return (
        f"{_BEFORE}#define inf __int_as_float(0x7f800000)\n"
        f"{header}namespace mlx::core::cu {{\n\nnamespace cg = cooperative_groups;\n\n"
        f"__global__ void {name}(\n    " + ",\n    ".join(parameters) + f") {{\n{body}\n}}\n\n}}\n"
    )


def compile_text(text: str, architecture: str) -> Compiled:
    """Compile for one architecture, down to machine code.

    Raises:
        CannotCompileError: with the compiler's log if it does not compile, or where NVRTC or CUDA's
            headers are missing.
    """
    try:
        code = nvrtc.compile_text(text, architecture, ["--ptxas-options=-v"])
    except CannotCompileError as error:
        if "libnvrtc" not in str(error) and "cuda_fp16.h" not in str(error):
            raise
        raise CannotCompileError(
            f"{error}\npip install nvidia-cuda-nvrtc nvidia-cuda-runtime"
            "   (or leave these tests out:  pytest -m 'not emulated')"
        ) from error
    assert code.kind == "cubin"
    numbers = {
        key: sum(map(int, re.findall(pattern, code.log)))
        for key, pattern in {
            "registers": r"Used (\d+) registers",
            "spill_bytes": r"(\d+) bytes spill (?:stores|loads)",
        }.items()
    }
    return Compiled(cubin_bytes=len(code.data), **numbers)
