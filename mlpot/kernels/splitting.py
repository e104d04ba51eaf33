"""Consecutive pieces of an array: a linear map whose transpose is concatenation.

MLX's own ``mx.split`` breaks ``mx.compile`` where a graph splits one computed array twice, as
Hessian-vector products do (its merge of equal nodes fails with ``_Map_base::at``); slices trace,
but the backward pass of each fills a whole array with zeros. This has neither fault.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import mlx.core as mx
from jaxtyping import Shaped

from .primitive import CustomFunction, as_tuple, fixed


@functools.lru_cache(maxsize=1024)
def _split(widths: tuple[int, ...], axis: int, ndim: int):
    places, start = [], 0
    for width in widths:
        place = [slice(None)] * ndim
        place[axis] = slice(start, start + width)
        places.append(tuple(place))
        start += width

    @CustomFunction
    def function(x):
        whole = fixed(x)
        return [whole[place] for place in places]

    @function.vjp
    def _(_primals, cotangents, _outputs):
        return mx.concatenate(list(cotangents), axis=axis)

    @function.jvp
    def _(_primals, tangents):
        return function(as_tuple(tangents)[0])

    return function


def split(
    x: Shaped[mx.array, "*shape"], widths: Sequence[int], axis: int = -1
) -> list[Shaped[mx.array, "*part"]]:
    """Consecutive pieces of the given widths along an axis, differentiable to any order.

    Args:
        x: any array.
        widths: at least one, each positive; they add up to the size of the axis.
        axis: along which it is cut.

    Returns:
        One array for each width.

    Raises:
        ValueError: the widths do not add up to the size of the axis.
    """
    axis = axis % x.ndim
    if sum(widths) != x.shape[axis] or min(widths, default=0) < 1:
        raise ValueError(f"widths {list(widths)} do not cut an axis of size {x.shape[axis]}")
    if len(widths) == 1:
        return [x]
    return list(_split(tuple(widths), axis, x.ndim)(x))
