"""Values of the convolution with weights from a table, on GPUs.

With few coefficients an edge (six for quintic interpolation) the rows of the table are combined
within the convolution's kernels, so that no weights are written or read; the table stays in the
cache. The adjoint to the table is a sum over edges in the order of their rows. Where memory allows
it, that to the weights is written for it, by the pass that the other adjoints share; else a kernel
of its own computes it once more. With many coefficients, as for the last layer of a network, a
matrix product and the plain convolution are faster.
"""

from __future__ import annotations

from collections.abc import Mapping

import mlx.core as mx

from ..convolution_spec import ConvolutionSpec
from ..edges import EdgeIndex
from .convolution import SUM_THREADS, Run, convolution, convolution_refusal
from .convolution_kernels import Tuning, table_kernel, table_sum_kernel
from .dialect import SIMD_WIDTH
from .generated import grid_refusal
from .row_sums import RowOrder, adjoint_to_table

#: Most coefficients of an edge for which kernels combine rows of the table.
MOST_COEFFICIENTS = 8
#: Blocks that share the edges of a row of the table, if the sums of all parts fit these bytes.
MOST_PARTS = 8
#: Most bytes of the adjoint to the weights that are written for that to the table.
WEIGHT_BYTES = 2 * 2**30
PARTS_BYTES = 256 * 2**20
#: By measurement on an H200, for the adjoint to the table.
TABLE = Tuning(width=2, components=32)


def radial_convolution_refusal(
    spec: ConvolutionSpec,
    n_nodes: int,
    n_coefficients: int,
    n_rows: int,
    has_rows: bool,
    *arrays: mx.array,
) -> str | None:
    """Why the GPU kernels cannot compute a radial convolution; None if they can."""
    refused = convolution_refusal(spec, n_nodes, *arrays)
    if refused:
        return refused
    if has_rows and n_coefficients > MOST_COEFFICIENTS:
        return f"{n_coefficients} coefficients an edge (the most is {MOST_COEFFICIENTS})"
    return grid_refusal(-(-n_rows * spec.n_weights // SUM_THREADS), SUM_THREADS)


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
        targets: of "x", "y", "h", "table" and "out"; "out" alone.
        arrays: x (n_nodes, dim_x), y (n_edges, dim_y), h (n_edges, M), table (n_rows, n_weights),
            out (n_nodes, dim_out), those that the targets need, of one type.
        edges: edge list sorted by receiver.
        rows: (n_edges,) int32, first row of each edge; None: every edge combines all rows. One
            whose rows do not exist gets weights that are NaN.
        n_coefficients: columns of h.
        n_rows: rows of the table.

    Returns:
        One array for each target, of the type of the arrays.
    """
    if rows is None:
        return _by_product(spec, targets, arrays, edges)
    dtype = next(iter(arrays.values())).dtype
    inputs = {**arrays, "g": arrays.get("out"), **edges.arrays(), "rows": rows}
    if "h" not in arrays:  # the adjoint to h does not depend on it
        inputs["h"] = mx.zeros((edges.n_edges, n_coefficients), dtype=dtype)
    run = Run(spec, dtype, inputs, edges, n_coefficients)
    if targets == ("out",):
        return run.forward()
    others = "".join(t for t in ("x", "y", "h") if t in targets)
    if "table" not in targets:
        found = run.adjoints(others)
    elif edges.n_edges * spec.n_weights * dtype.size <= WEIGHT_BYTES:
        found = run.adjoints(others + "w")
        order = RowOrder.of(rows, n_rows - n_coefficients + 1)
        found["table"] = adjoint_to_table(inputs["h"], found["w"], order)
    else:
        found = run.adjoints(others) if others else {}
        found["table"] = _table_adjoint(run, rows, n_rows)
    return [found[target] for target in targets]


def _by_product(
    spec: ConvolutionSpec,
    targets: tuple[str, ...],
    a: Mapping[str, mx.array],
    edges: EdgeIndex,
) -> list[mx.array]:
    """By the array of weights, a matrix product."""
    asked = tuple(dict.fromkeys("w" if t in ("h", "table") else t for t in targets))
    given = {role: a[role] for role in ("x", "y", "out") if role in a}
    if asked != ("w",):
        given["w"] = a["h"] @ a["table"]
    found = dict(zip(asked, convolution(spec, asked, given, edges), strict=True))
    if "h" in targets:
        found["h"] = found["w"] @ a["table"].T
    if "table" in targets:
        found["table"] = a["h"].T @ found["w"]
    return [found[target] for target in targets]


def parts_of_row(n_sums: int) -> int:
    """How many blocks share the edges of a row where they make so many sums."""
    return max(1, min(MOST_PARTS, PARTS_BYTES // (4 * n_sums)))


def _table_adjoint(run: Run, rows: mx.array, n_rows: int) -> mx.array:
    sizes = run.sizes
    node_kernel = run.kept("table", lambda: table_kernel(run.spec, sizes, TABLE))
    sum_kernel, threads_of_row = run.kept("table sum", lambda: table_sum_kernel(sizes))
    n_firsts = n_rows - sizes.coefficients + 1
    order = RowOrder.of(rows, n_firsts)
    n_parts = parts_of_row(n_firsts * sizes.coefficients * sizes.n_weights)
    given = {**run.arrays, "row_perm": order.perm, "row_ptr": order.ptr}
    (parts,) = node_kernel.kernel(
        [given[name] for name in node_kernel.kernel.inputs],
        shapes=[(n_parts, n_firsts, sizes.coefficients, sizes.n_weights)],
        dtypes=[mx.float32],
        blocks=(node_kernel.blocks(n_firsts), n_parts),
        threads=SIMD_WIDTH * node_kernel.warps,
    )
    return sum_kernel(
        [parts],
        shapes=[(n_rows, sizes.n_weights)],
        dtypes=[run.dtype],
        blocks=-(-n_rows * threads_of_row // SUM_THREADS),
        threads=SUM_THREADS,
    )[0]
