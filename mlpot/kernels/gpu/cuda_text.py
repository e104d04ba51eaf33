"""The whole text of a CUDA kernel that runs through ``mx.fast.precompiled_cuda_kernel``.

That function hands over pointers to the inputs, pointers to the outputs, then numbers, and looks
the kernel up by its plain name. So the sizes that a body reads (``x_shape[0]``) follow as integers
and the number of dimensions is written into the text. Nothing of MLX's or CUDA's headers is
included but float16 and bfloat16 where there are such arrays: those headers take longer to read
than most kernels to compile.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx

#: The words of array types in CUDA.
CUDA_TYPES = {
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

_INTEGERS = """\
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long uint64_t;
"""
_SHORT_TYPES = "#include <cuda_bf16.h>\n#include <cuda_fp16.h>\n"
_NO_SHORT_TYPES = "#define MLPOT_FLOAT32_ONLY\n"

_NAME = "MLPOT_KERNEL_NAME"


@dataclass(frozen=True)
class KernelText:
    """A kernel to be compiled.

    Args:
        name: of the function; another text has another name.
        text: all that the compiler needs.
        sizes: (input, axis) of the integers that follow the outputs.
    """

    name: str
    text: str
    sizes: tuple[tuple[int, int], ...]


def kernel_text(
    name: str,
    inputs: Sequence[tuple[str, mx.Dtype, int]],
    outputs: Sequence[tuple[str, mx.Dtype]],
    body: str,
    header: str,
) -> KernelText:
    """Complete a kernel.

    Args:
        name: an identifier; a hash of the text is added.
        inputs: name, type and number of dimensions of each.
        outputs: name and type of each.
        body: text between the braces, in CUDA. It may read ``x_shape[axis]`` and ``x_ndim`` of
            inputs x of at least one dimension.
        header: text before the kernel.

    Raises:
        ValueError: the body reads strides.
    """
    parameters = [f"const {CUDA_TYPES[dtype]}* {key}" for key, dtype, _ in inputs]
    parameters += [f"{CUDA_TYPES[dtype]}* {key}" for key, dtype in outputs]
    sizes: list[tuple[int, int]] = []
    lines = []
    for number, (key, _, ndim) in enumerate(inputs):
        if re.search(rf"\b{key}_strides\b", body):
            raise ValueError(f"the body reads {key}_strides: arrays are row-contiguous")
        if ndim and re.search(rf"\b{key}_shape\b", body):
            names = [f"{key}_size{axis}" for axis in range(ndim)]
            sizes += [(number, axis) for axis in range(ndim)]
            parameters += [f"const int {size}" for size in names]
            lines.append(f"const int {key}_shape[{ndim}] = {{{', '.join(names)}}};")
        if ndim and re.search(rf"\b{key}_ndim\b", body):
            lines.append(f"const int {key}_ndim = {ndim};")
    types = {dtype for _, dtype, *_ in (*inputs, *outputs)}
    short = types & {mx.float16, mx.bfloat16} or "__half" in body or "__nv_bfloat16" in body
    text = "\n".join(
        [
            _INTEGERS + (_SHORT_TYPES if short else _NO_SHORT_TYPES) + header,
            f'extern "C" __global__ void {_NAME}(',
            "    " + ",\n    ".join(parameters) + ") {",
            *lines,
            body,
            "}\n",
        ]
    )
    unique = f"{name}_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    return KernelText(unique, text.replace(_NAME, unique), tuple(sizes))
