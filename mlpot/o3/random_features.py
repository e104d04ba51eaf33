"""Random features with the statistics that normalised layers expect."""

from __future__ import annotations

import mlx.core as mx
from jaxtyping import Float

from .irreps import Irreps


def random_features(
    irreps: Irreps,
    size: tuple[int, ...],
    normalization: str = "component",
    dtype: mx.Dtype | None = None,
    key: mx.array | None = None,
) -> Float[mx.array, "*size"]:
    """Random features; see Irreps.randn."""
    if size.count(-1) != 1:
        raise ValueError(f"size is {size}; it must hold -1 once, for the axis of the irreps")
    if normalization not in ("component", "norm"):
        raise ValueError(f'normalization is {normalization!r}; choose "component" or "norm"')
    dtype = mx.float32 if dtype is None else dtype
    axis = size.index(-1)
    shape = (*size[:axis], irreps.dim, *size[axis + 1 :])
    normal = mx.random.normal(shape=shape, dtype=dtype, key=key)
    if normalization == "component" or irreps.dim == 0:
        return normal
    after = shape[axis + 1 :]
    blocks = []
    for columns, (mul, ir) in zip(irreps.slices(), irreps, strict=True):
        if mul > 0:
            block = mx.moveaxis(normal, axis, 0)[columns].reshape(mul, ir.dim, -1)
            length = mx.sqrt(mx.sum(block * block, axis=1, keepdims=True))
            blocks.append((block / length).reshape(mul * ir.dim, *shape[:axis], *after))
    return mx.moveaxis(mx.concatenate(blocks, axis=0), 0, axis)
