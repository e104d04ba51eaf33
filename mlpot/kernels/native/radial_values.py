"""The kernels of convolutions with weights from a table, as functions of MLX arrays.

Values only, lazily evaluated, as in ``values``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import mlx.core as mx

from ..convolution_spec import ConvolutionSpec
from ..edges import EdgeIndex
from .values import native_module, native_plan

#: Roles of the convolution, and the groups of them that a kernel gives the gradients to.
RADIAL_ROLES = ("x", "y", "h", "table", "out")
RADIAL_TARGETS = (("out",), ("x",), ("y",), ("h",), ("y", "h"), ("table",))
#: Those whose changes have a kernel.
CHANGE_TARGETS = (("out",), ("x",), ("y", "h"))


def radial_convolution(
    spec: ConvolutionSpec,
    targets: tuple[str, ...],
    arrays: Mapping[str, mx.array],
    edges: EdgeIndex,
    rows: mx.array | None,
    n_coefficients: int,
    n_rows: int,
) -> list[mx.array]:
    """Gradients of T = <out, convolution(x, y, edge weights of h and the table)>.

    Args:
        spec: the paths.
        targets: one of ``RADIAL_TARGETS``.
        arrays: the roles that the targets need: all but a single target, all for two. x
            (n_nodes, dim_x), y (n_edges, dim_y), h (n_edges, n_coefficients), table
            (n_rows, n_weights), out (n_nodes, dim_out), all float32 or all float64.
        edges: edge list sorted by receiver.
        rows: (n_edges,) int32, first row of each edge; None: every edge combines all rows. One
            outside makes the result NaN, with a line on stderr.
        n_coefficients: columns of h.
        n_rows: rows of the table.

    Returns:
        One array for each target, with the shape of its role.
    """
    given, index = _inputs(targets, arrays, edges, rows)
    return native_module().radial_convolution(
        native_plan(spec), "_".join(targets), [*given, *index], n_coefficients, n_rows
    )


def radial_changes(
    spec: ConvolutionSpec,
    targets: tuple[str, ...],
    arrays: Mapping[str, mx.array],
    changes: Mapping[str, mx.array],
    edges: EdgeIndex,
    rows: mx.array | None,
    n_coefficients: int,
    n_rows: int,
) -> list[mx.array]:
    """How gradients of `radial_convolution` change with their arguments, in one pass.

    Args:
        spec: the paths.
        targets: one of ``CHANGE_TARGETS``.
        arrays: as of `radial_convolution`.
        changes: for some of the roles x, y, h and out, no single target among them, arrays of the
            same shapes.
        edges: edge list sorted by receiver.
        rows: as of `radial_convolution`.
        n_coefficients: columns of h.
        n_rows: rows of the table.

    Returns:
        For each target the sum over ``changes`` of the gradient with this role replaced; without
        the target's own role.
    """
    given, index = _inputs(targets, arrays, edges, rows)
    changed = [role for role in RADIAL_ROLES if role in changes]
    given += [changes[role] for role in changed]
    return native_module().radial_changes(
        native_plan(spec), "_".join(targets), changed, [*given, *index], n_coefficients, n_rows
    )


def _inputs(
    targets: tuple[str, ...],
    arrays: Mapping[str, mx.array],
    edges: EdgeIndex,
    rows: mx.array | None,
) -> tuple[list[mx.array], list[mx.array]]:
    """What the kernels take: the roles that the targets need, and the integers."""
    index = [
        *(edges.senders, edges.receivers, edges.receiver_ptr),
        *(edges.sender_perm, edges.sender_ptr),
        *([] if rows is None else [rows]),
    ]
    return [arrays[role] for role in RADIAL_ROLES if len(targets) > 1 or role not in targets], index


def share_passes(arrays: Sequence[mx.array]) -> list[mx.array]:
    """The same arrays, not yet evaluated, with fewer passes over edges behind them.

    Where a forward derivative asks for a map of `radial_convolution` and for its change, one pass
    computes both. The graph behind the arrays is changed in place: nothing else may hold arrays of
    it, and there must be no further derivative of them.

    Args:
        arrays: results of a forward derivative.
    """
    return native_module().share_passes(list(arrays))[0]


def edge_weights(
    target: str,
    arrays: Mapping[str, mx.array],
    rows: mx.array | None,
    n_coefficients: int,
    n_rows: int,
) -> mx.array:
    """Gradient of <w, sum_m h[:, m] table[rows + m]> to one of h, table and w.

    Args:
        target: "h", "table" or "w".
        arrays: the other two: h (n_edges, n_coefficients), table (n_rows, n_weights), w
            (n_edges, n_weights).
        rows: as of `radial_convolution`.
        n_coefficients: columns of h.
        n_rows: rows of the table.
    """
    given = [arrays[role] for role in ("h", "table", "w") if role != target]
    index = [] if rows is None else [rows]
    return native_module().edge_weights(target, [*given, *index], n_coefficients, n_rows)
