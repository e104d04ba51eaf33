"""MLX arrays as bytes for the compiled kernel, and back; names of number types."""

from __future__ import annotations

import mlx.core as mx
import numpy as np

#: Names of the types in the text that MLX writes.
METAL_TYPES = {
    mx.float32: "float",
    mx.float16: "float16_t",
    mx.bfloat16: "bfloat16_t",
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


def to_numpy(array: mx.array) -> np.ndarray:
    """The elements in C order; bfloat16 as the integers of its bits."""
    return np.ascontiguousarray(array.view(mx.uint16) if array.dtype == mx.bfloat16 else array)


def from_file(path: str, shape: tuple[int, ...], dtype: mx.Dtype) -> mx.array:
    """The array whose elements a kernel has left in a file."""
    is_bfloat = dtype == mx.bfloat16
    raw = np.fromfile(path, str(mx.uint16 if is_bfloat else dtype).removeprefix("mlx.core."))
    array = mx.array(raw.reshape(shape))
    return array.view(mx.bfloat16) if is_bfloat else array


def same(a: mx.array, b: mx.array) -> bool:
    """Whether all bits are equal."""
    return to_numpy(a).tobytes() == to_numpy(b).tobytes()
