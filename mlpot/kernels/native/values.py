"""The kernels as functions of MLX arrays: values only, lazily evaluated.

Derivatives are the business of the primitives that call these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import numpy as np
from jaxtyping import Int, Shaped

from ..convolution_spec import ConvolutionSpec
from ..edges import EdgeIndex
from . import loader

if TYPE_CHECKING:
    from ..block_linear import LinearSpec

#: Maps of the convolution family with their arguments: ``convolution(spec, name, arrays, edges)``.
CONVOLUTION_MAPS = {
    "conv": ("x", "y", "w"),
    "conv_x": ("y", "w", "g"),
    "conv_y": ("x", "w", "g"),
    "conv_w": ("x", "y", "g"),
    "conv_yw": ("x", "y", "w", "g"),
}

#: Functions of :func:`elementary`; siluN is the N-th derivative of silu.
ELEMENTARY_FUNCTIONS = (
    *("exp", "sin", "cos", "tanh", "sigmoid"),
    *("silu", "silu1", "silu2", "silu3"),
)


def native_module() -> Any:
    """The compiled module."""
    found = loader.module()
    assert found is not None, "ask native.refusal(...) first"
    return found


def native_plan(spec: ConvolutionSpec) -> Any:
    """The paths as the compiled module wants them, made once."""
    if "native" not in spec.caches:
        integers, coefficients = [], [np.zeros(0)]
        for p in spec.paths:
            integers += [p.x_offset, p.x_stride, p.d1, p.y_offset, p.d2, p.w_offset]
            integers += [p.out_offset, p.out_stride, p.d3, p.mul]
            coefficients.append(np.asarray(p.coefficients, np.float64).ravel())
        spec.caches["native"] = native_module().Plan(
            spec.dim_x,
            spec.dim_y,
            spec.n_weights,
            spec.dim_out,
            [int(i) for i in integers],
            np.concatenate(coefficients).tolist(),
        )
    return spec.caches["native"]


def convolution(
    spec: ConvolutionSpec, name: str, arrays: Sequence[mx.array], edges: EdgeIndex
) -> list[mx.array]:
    """One map of the convolution family.

    Args:
        spec: the paths.
        name: a key of ``CONVOLUTION_MAPS``; ``conv_yw`` is ``conv_y`` and ``conv_w`` in one pass.
        arrays: its arguments in the order given there: x (n_nodes, dim_x), y (n_edges, dim_y),
            w (n_edges, n_weights), g (n_nodes, dim_out), all float32 or all float64.
        edges: edge list sorted by receiver.

    Returns:
        One array with the shape of what the map is the adjoint to (``conv``: of g); two arrays for
        ``conv_yw``.
    """
    index = [
        *(edges.senders, edges.receivers, edges.receiver_ptr),
        *(edges.sender_perm, edges.sender_ptr),
    ]
    return native_module().convolution(native_plan(spec), name, [*arrays, *index])


def block_linear(spec: LinearSpec, target: str, arrays: Mapping[str, mx.array]) -> mx.array:
    """Gradient of T = <out, linear map of x, y and w> to one role.

    Args:
        spec: the paths.
        target: "x", "y", "w" or "out".
        arrays: the other roles: x (n, dim_x), y (n, dim_y) if there is one, w (n_weights,), out
            (n, dim_out), all float32 or all float64.
    """
    if "native" not in spec.caches:
        integers: list[int] = []
        for p in spec.paths:
            integers += [p.x_offset, p.mul_in, p.y_offset, p.n_y]
            integers += [p.w_offset, p.out_offset, p.mul_out, p.d]
        sizes = (spec.dim_x, spec.dim_y, spec.n_weights, spec.dim_out)
        factors = [float(p.factor) for p in spec.paths]
        spec.caches["native"] = native_module().LinearPlan(*sizes, integers, factors)
    given = [arrays[role] for role in ("x", "y", "w", "out") if role != target and role in arrays]
    return native_module().block_linear(spec.caches["native"], target, given)


def gather(
    x: Shaped[mx.array, "n_rows *rest"], index: Int[mx.array, " n"]
) -> Shaped[mx.array, "n *rest"]:
    """Rows ``x[index]``; an index outside gives NaN everywhere and a line on stderr."""
    return native_module().gather(x, index.astype(mx.int32))


def segment_sum(
    x: Shaped[mx.array, "n *rest"], index: Int[mx.array, " n"], n_segments: int
) -> Shaped[mx.array, "n_segments *rest"]:
    """Sums of the rows that share an index, each in the order of its rows."""
    return native_module().segment_sum(x, index.astype(mx.int32), n_segments)


def elementary(name: str, x: Shaped[mx.array, "*shape"]) -> Shaped[mx.array, "*shape"]:
    """A function of ``ELEMENTARY_FUNCTIONS``, elementwise."""
    return native_module().elementary(name, x)


def directions(kind: str, order: int, arrays: Sequence[mx.array]) -> mx.array:
    """A map of vectors, see `mlpot.kernels.directions`.

    Args:
        kind: "direction", "length" or "length_adjoint".
        order: of the derivative, at most 3.
        arrays: v (n, 3), for "length_adjoint" g (n,), and the directions (n, 3).
    """
    return native_module().directions(kind, order, list(arrays))
