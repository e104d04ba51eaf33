"""Features and edge weights in 16 bits, in and around the convolution.

The convolution of large systems waits for memory. With 16 bits a number its arrays are half as
large; products and sums stay in float32, and so do all other layers, parameters and their
gradients. GPU kernels read and write the short numbers themselves. Elsewhere the numbers are
rounded to them and computed with in float32, which gives the same up to rounding.

Derivatives pass through the same numbers: what comes back to an array that was rounded is rounded
likewise, as the kernels store it.
"""

from __future__ import annotations

from collections.abc import Callable

import mlx.core as mx

from mlpot import kernels
from mlpot.kernels import backend, dispatch, gpu

from .radial_edges import TableWeights

#: Number types for features, by name.
FEATURE_DTYPES = {"float32": mx.float32, "float16": mx.float16, "bfloat16": mx.bfloat16}


def find_feature_dtype(dtype: str | mx.Dtype) -> mx.Dtype:
    """The number type of features with this name.

    Raises:
        ValueError: it is none.
    """
    name = str(dtype).removeprefix("mlx.core.")
    if name not in FEATURE_DTYPES:
        raise ValueError(
            f"feature_dtype is {name!r}; choose one of {', '.join(map(repr, FEATURE_DTYPES))}"
        )
    return FEATURE_DTYPES[name]


def convolution(
    spec: kernels.ConvolutionSpec,
    x: mx.array,
    y: mx.array,
    weights: mx.array | TableWeights,
    edges: kernels.EdgeIndex,
    dtype: mx.Dtype,
) -> mx.array:
    """The convolution with arrays in a number type of their own.

    Args:
        spec: the paths.
        x: (n_nodes, dim_x), component-major node features.
        y: (n_edges, dim_y), edge harmonics.
        weights: (n_edges, n_weights), or as rows of a table.
        edges: edge list sorted by receiver.
        dtype: float32: as it is; float16 or bfloat16: for arrays in float32 (others stay).

    Returns:
        (n_nodes, dim_out), of the type of x.
    """
    if dtype == mx.float32 or x.dtype != mx.float32:
        return _convolution(spec, x, y, weights, edges, lambda a: a)
    if _kernels_take(spec, x.astype(dtype), weights, edges):
        found = _convolution(spec, x, y, weights, edges, lambda a: a.astype(dtype))
        return found.astype(mx.float32)

    def rounded(a: mx.array) -> mx.array:
        return a.astype(dtype).astype(mx.float32)

    return rounded(_convolution(spec, x, y, weights, edges, rounded))


def _convolution(
    spec: kernels.ConvolutionSpec,
    x: mx.array,
    y: mx.array,
    weights: mx.array | TableWeights,
    edges: kernels.EdgeIndex,
    stored: Callable[[mx.array], mx.array],
) -> mx.array:
    if isinstance(weights, TableWeights):
        powers, table, rows, fixed = weights
        arrays = (stored(x), stored(y), stored(powers), stored(table))
        return kernels.radial_convolution(spec, *arrays, rows, edges, fixed_table=fixed)
    return kernels.convolution(spec, stored(x), stored(y), stored(weights), edges)


def _kernels_take(
    spec: kernels.ConvolutionSpec,
    short: mx.array,
    weights: mx.array | TableWeights,
    edges: kernels.EdgeIndex,
) -> bool:
    """Whether GPU kernels compute this convolution."""
    if gpu.device_refusal() or dispatch.forced_choice() is False:
        return False
    if backend.chosen() not in ("auto", gpu.running_dialect()):
        return False
    if isinstance(weights, TableWeights):
        powers, table, rows, _ = weights
        sizes = (powers.shape[1], table.shape[0], rows is not None)
        return not gpu.radial_convolution_refusal(spec, edges.n_nodes, *sizes, short)
    return not gpu.convolution_refusal(spec, edges.n_nodes, short)
