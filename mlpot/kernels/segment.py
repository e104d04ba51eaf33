"""Gather and segment sum: each other's transpose, so each other's derivative rule.

MLX's own indexing has no forward derivative of its backward pass (a scatter); these have every
derivative of any order.
"""

from __future__ import annotations

import functools

import mlx.core as mx
from jaxtyping import Int, Shaped

from . import dispatch, native
from .primitive import multilinear


def _gathered(x: mx.array, index: mx.array) -> mx.array:
    if dispatch.choose("gather", (("native", lambda: native.refusal(x)),)) == "native":
        return native.gather(x, index)
    return mx.take(x, index, axis=0)


@functools.lru_cache(maxsize=512)
def _gather(n_rows: int):
    return multilinear(_gathered, [lambda: _segment_sum(n_rows)])


@functools.lru_cache(maxsize=512)
def _segment_sum(n_segments: int):
    def value(x, index):
        offers = (("native", lambda: native.refusal(x)),)
        if dispatch.choose("segment_sum", offers) == "native":
            return native.segment_sum(x, index, n_segments)
        zeros = mx.zeros((n_segments, *x.shape[1:]), dtype=x.dtype)
        return zeros.at[index].add(x) if x.size else zeros

    return multilinear(value, [lambda: _gather(n_segments)])


def gather(
    x: Shaped[mx.array, "n_rows *rest"], index: Int[mx.array, " n"]
) -> Shaped[mx.array, "n *rest"]:
    """Rows ``x[index]``.

    Args:
        x: (n_rows, ...).
        index: (n,) integers in 0..n_rows-1.

    Returns:
        (n, ...).
    """
    return _gather(x.shape[0])(x, index)


def segment_sum(
    x: Shaped[mx.array, "n *rest"], index: Int[mx.array, " n"], n_segments: int
) -> Shaped[mx.array, "n_segments *rest"]:
    """Sum of the rows of ``x`` that share an index.

    Args:
        x: (n, ...).
        index: (n,) integers in 0..n_segments-1, in any order.
        n_segments: number of rows of the result.

    Returns:
        (n_segments, ...); rows without members are zero.
    """
    return _segment_sum(n_segments)(x, index)
