"""Gather and segment sum: each other's transpose, so each other's derivative rule.

MLX's own indexing has no forward derivative of its backward pass (a scatter); these have every
derivative of any order.
"""

from __future__ import annotations

import functools

import mlx.core as mx
from jaxtyping import Int, Shaped

from . import dispatch, gpu, native
from .primitive import multilinear
from .segment_order import SegmentOrder


def _gathered(x: mx.array, index: mx.array, *_order: mx.array) -> mx.array:
    offers: list[tuple[str, dispatch.Check]] = [*gpu.offers(lambda: gpu.gather_refusal(x, index))]
    offers.append(("native", lambda: native.refusal(x)))
    backend = dispatch.choose("gather", offers)
    if backend == "native":
        return native.gather(x, index)
    if backend in gpu.DIALECTS:
        return gpu.gather(x, index)
    return mx.take(x, index, axis=0)


def _summed(x: mx.array, index: mx.array, order: tuple[mx.array, ...], ordered: bool, n: int):
    offers: list[tuple[str, dispatch.Check]] = [*gpu.offers(lambda: gpu.segment_sum_refusal(x, n))]
    offers.append(("native", lambda: native.refusal(x)))
    backend = dispatch.choose("segment_sum", offers)
    if backend == "native":
        return native.segment_sum(x, index, n)
    if backend in gpu.DIALECTS:
        return _summed_on_gpu(x, index, order, ordered, n)
    zeros = mx.zeros((n, *x.shape[1:]), dtype=x.dtype)
    return zeros.at[index].add(x) if x.size else zeros


def _summed_on_gpu(
    x: mx.array, index: mx.array, order: tuple[mx.array, ...], ordered: bool, n: int
) -> mx.array:
    if order:
        return gpu.segment_sum(x, *order)
    if ordered:
        return gpu.segment_sum(x, gpu.segment_starts(index, n))
    perm = mx.argsort(index)
    ptr = gpu.segment_starts(mx.take(index, perm), n)
    return gpu.segment_sum(x, ptr, perm.astype(mx.int32))


@functools.lru_cache(maxsize=512)
def _gather(n_rows: int, ordered: bool):
    return multilinear(_gathered, [lambda: _segment_sum(n_rows, ordered)])


@functools.lru_cache(maxsize=512)
def _segment_sum(n_segments: int, ordered: bool):
    def value(x, index, *order):
        return _summed(x, index, order, ordered, n_segments)

    return multilinear(value, [lambda: _gather(n_segments, ordered)])


def gather(
    x: Shaped[mx.array, "n_rows *rest"],
    index: Int[mx.array, " n"],
    order: SegmentOrder | None = None,
) -> Shaped[mx.array, "n *rest"]:
    """Rows ``x[index]``.

    Args:
        x: (n_rows, ...).
        index: (n,) integers in 0..n_rows-1.
        order: of the index, if it is known: what its derivative, a segment sum, is quicker with
            on GPUs. ``SegmentOrder()`` says that the index is nondecreasing.

    Returns:
        (n, ...).
    """
    arrays = order.arrays() if order else ()
    return _gather(x.shape[0], order is not None)(x, index, *arrays)


def segment_sum(
    x: Shaped[mx.array, "n *rest"],
    index: Int[mx.array, " n"],
    n_segments: int,
    order: SegmentOrder | None = None,
) -> Shaped[mx.array, "n_segments *rest"]:
    """Sum of the rows of ``x`` that share an index.

    Args:
        x: (n, ...).
        index: (n,) integers in 0..n_segments-1, in any order.
        n_segments: number of rows of the result.
        order: of the index, if it is known: without it GPUs have to sort.
            ``SegmentOrder()`` says that the index is nondecreasing.

    Returns:
        (n_segments, ...); rows without members are zero.
    """
    arrays = order.arrays() if order else ()
    return _segment_sum(n_segments, order is not None)(x, index, *arrays)
