"""Gather and segment sum: each other's transpose, so each other's derivative rule.

MLX's own indexing has no forward derivative of its backward pass (a scatter); these have every
derivative of any order.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import mlx.core as mx
from jaxtyping import Int, Shaped

from . import dispatch, gpu, native
from .primitive import multilinear
from .segment_order import SegmentOrder


@dataclass(frozen=True)
class _Kind:
    """What tells apart the functions that are made of these: rows, order, choice of kernels."""

    n_rows: int
    ordered: bool
    use_custom_kernel: bool | None


def _gathered(x: mx.array, index: mx.array, kind: _Kind) -> mx.array:
    offers: list[tuple[str, dispatch.Check]] = [*gpu.offers(lambda: gpu.gather_refusal(x, index))]
    offers.append(("native", lambda: native.refusal(x)))
    backend = dispatch.choose("gather", offers, kind.use_custom_kernel)
    if backend == "native":
        return native.gather(x, index)
    if backend in gpu.DIALECTS:
        return gpu.gather(x, index)
    return mx.take(x, index, axis=0)


def _summed(x: mx.array, index: mx.array, order: tuple[mx.array, ...], kind: _Kind) -> mx.array:
    n = kind.n_rows
    offers: list[tuple[str, dispatch.Check]] = [*gpu.offers(lambda: gpu.segment_sum_refusal(x, n))]
    offers.append(("native", lambda: native.refusal(x)))
    backend = dispatch.choose("segment_sum", offers, kind.use_custom_kernel)
    if backend == "native":
        return native.segment_sum(x, index, n)
    if backend in gpu.DIALECTS:
        return _summed_on_gpu(x, index, order, kind)
    if not x.size:
        return mx.zeros((n, *x.shape[1:]), dtype=x.dtype)
    # One row more takes what lies outside, as MLX would write it beyond the end of the array.
    place = mx.where((index >= 0) & (index < n), index, n)
    return mx.zeros((n + 1, *x.shape[1:]), dtype=x.dtype).at[place].add(x)[:n]


def _summed_on_gpu(
    x: mx.array, index: mx.array, order: tuple[mx.array, ...], kind: _Kind
) -> mx.array:
    if order:
        return gpu.segment_sum(x, *order)
    if kind.ordered:
        return gpu.segment_sum(x, gpu.segment_starts(index, kind.n_rows))
    perm = mx.argsort(index)
    ptr = gpu.segment_starts(mx.take(index, perm), kind.n_rows)
    return gpu.segment_sum(x, ptr, perm.astype(mx.int32))


@functools.lru_cache(maxsize=512)
def _gather(kind: _Kind):
    def value(x, index, *_order):
        return _gathered(x, index, kind)

    return multilinear(value, [lambda: _segment_sum(kind)])


@functools.lru_cache(maxsize=512)
def _segment_sum(kind: _Kind):
    def value(x, index, *order):
        return _summed(x, index, order, kind)

    return multilinear(value, [lambda: _gather(kind)])


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
    return _gather(_Kind(x.shape[0], order is not None, None))(x, index, *arrays)


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
    return _segment_sum(_Kind(n_segments, order is not None, None))(x, index, *arrays)


def scatter_sum(
    source: Shaped[mx.array, "..."],
    index: Shaped[mx.array, "..."],
    dim_size: int,
    use_custom_kernel: bool | None = None,
    jvp_safe: bool = True,
) -> Shaped[mx.array, "dim_size *rest"]:
    """`segment_sum` under the name and with the switches of e3nn's MLX port.

    Args:
        source: (n, ...).
        index: (n,) integers in 0..dim_size-1, in any order. Others count nowhere, or, with kernels
            on CPUs, make the result NaN, with a line on stderr.
        dim_size: number of rows of the result.
        use_custom_kernel: None takes kernels where there are some, True always, False never;
            derivatives keep the choice, and the result is the same. Kernels give the same bits each
            time; on GPUs False takes MLX's atomic sums, which do not, and which were up to three
            times faster on an H200 below some 10^7 numbers, slower above.
        jvp_safe: True and False do the same: every path has forward derivatives.

    Returns:
        (dim_size, ...); rows without members are zero.

    Raises:
        ValueError: ``index`` has not one integer for each row, ``dim_size`` is negative, or kernels
            are forced and there is none for the arguments.
    """
    if not mx.issubdtype(index.dtype, mx.integer):
        raise ValueError(f"index has the type {index.dtype}; give integers, e.g. int32")
    if index.ndim != 1 or source.ndim == 0 or index.shape[0] != source.shape[0]:
        raise ValueError(
            f"index has the shape {tuple(index.shape)} and source {tuple(source.shape)}; give one "
            "index for each row of source"
        )
    if dim_size < 0:
        raise ValueError(f"dim_size is {dim_size}; give the number of rows of the result")
    del jvp_safe
    return _segment_sum(_Kind(dim_size, False, use_custom_kernel))(source, index)
