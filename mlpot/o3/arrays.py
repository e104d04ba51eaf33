"""Arguments that may be numbers or arrays, brought to one floating-point type."""

from __future__ import annotations

import mlx.core as mx
import numpy as np


def as_floats(*values) -> list[mx.array]:
    """Arrays of one floating-point type: that of the MLX arrays given, else float32."""
    dtype = mx.float32
    arrays = [v for v in values if isinstance(v, mx.array)]
    if any(v.dtype == mx.float64 for v in arrays):
        dtype = mx.float64
    elif arrays and all(v.dtype == arrays[0].dtype for v in arrays):
        dtype = arrays[0].dtype if mx.issubdtype(arrays[0].dtype, mx.floating) else dtype
    return [
        v.astype(dtype) if isinstance(v, mx.array) else mx.array(np.asarray(v), dtype=dtype)
        for v in values
    ]


def check_last_axis(name: str, x: mx.array, size: int) -> None:
    """Raises ValueError unless the last axis of ``x`` has the given size."""
    if x.ndim == 0 or x.shape[-1] != size:
        raise ValueError(f"{name} has the shape {tuple(x.shape)}; its last axis must be {size}")
