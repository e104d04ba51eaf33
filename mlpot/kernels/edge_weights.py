"""Edge weights as combinations of rows of a table.

    w[e, :] = sum_{m < M} h[e, m] table[rows[e] + m, :]

With M = 6 and rows = 3 * interval this is quintic Hermite interpolation: the table holds value,
slope and curvature of the weights at each knot, h the six basis functions of the distance. Without
rows the table has M rows and w = h @ table: the last layer of a radial network.

With g the cotangent of w, <g, w> is linear in h, table and g, so every derivative is one of three
maps: to w, to h and to the table.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import mlx.core as mx
from jaxtyping import Float, Int

from . import dispatch, native
from .multilinear_form import Arrays, MultilinearForm


def weights_values(h: mx.array, table: mx.array, rows: mx.array | None) -> mx.array:
    """w in plain MLX."""
    if rows is None:
        return h @ table
    total = h[:, :1] * mx.take(table, rows, axis=0)
    for m in range(1, h.shape[1]):
        total = total + h[:, m : m + 1] * mx.take(table, rows + m, axis=0)
    return total


def adjoint_to_coefficients(
    table: mx.array, g: mx.array, rows: mx.array | None, n_coefficients: int
) -> mx.array:
    """Adjoint of w to h in plain MLX."""
    if rows is None:
        return g @ table.T
    columns = [(g * mx.take(table, rows + m, axis=0)).sum(axis=1) for m in range(n_coefficients)]
    return mx.stack(columns, axis=1)


def adjoint_to_table(h: mx.array, g: mx.array, rows: mx.array | None, n_rows: int) -> mx.array:
    """Adjoint of w to the table in plain MLX."""
    if rows is None:
        return h.T @ g
    total = mx.zeros((n_rows, g.shape[1]), dtype=g.dtype)
    for m in range(h.shape[1]):
        total = total.at[rows + m].add(h[:, m : m + 1] * g)
    return total


@functools.lru_cache(maxsize=512)
def _form(n_coefficients: int, n_rows: int) -> MultilinearForm:
    def evaluate(targets: tuple[str, ...], a: Arrays, index: Sequence[mx.array]):
        (target,) = targets
        rows = index[0] if index else None
        offers = (("native", lambda: native.refusal(*a.values())),)
        if dispatch.choose(f"edge_weights.{target}", offers) == "native":
            return [native.edge_weights(target, a, rows, n_coefficients, n_rows)]
        if target == "w":
            return [weights_values(a["h"], a["table"], rows)]
        if target == "h":
            return [adjoint_to_coefficients(a["table"], a["w"], rows, n_coefficients)]
        return [adjoint_to_table(a["h"], a["w"], rows, n_rows)]

    return MultilinearForm(("h", "table", "w"), evaluate)


def check_table(h: mx.array, table: mx.array, rows: mx.array | None) -> None:
    """Refuse coefficients, table and rows that do not belong together.

    Raises:
        ValueError: says which sizes differ.
    """
    if h.ndim != 2 or table.ndim != 2:
        raise ValueError(f"h has shape {h.shape}, the table {table.shape}; both need two axes")
    if rows is None:
        if h.shape[1] != table.shape[0]:
            raise ValueError(
                f"h has {h.shape[1]} columns, the table {table.shape[0]} rows: without rows they "
                "must be equal"
            )
        return
    if rows.shape != (h.shape[0],) or rows.dtype != mx.int32:
        raise ValueError(
            f"rows has shape {rows.shape} and type {rows.dtype}; it needs one int32 for each of "
            f"the {h.shape[0]} rows of h"
        )
    if h.shape[1] > table.shape[0]:
        raise ValueError(f"h has {h.shape[1]} columns, the table only {table.shape[0]} rows")


def edge_weights(
    h: Float[mx.array, "n_edges n_coefficients"],
    table: Float[mx.array, "n_rows n_weights"],
    rows: Int[mx.array, " _"] | None = None,
) -> Float[mx.array, "n_edges n_weights"]:
    """Weights w[e] = sum_m h[e, m] table[rows[e] + m]; every derivative to h and the table.

    Args:
        h: (n_edges, M) coefficients.
        table: (n_rows, n_weights).
        rows: (n_edges,) int32 in 0..n_rows-M, first row of each edge; None: the table has M rows
            and all are used.

    Returns:
        (n_edges, n_weights).

    Raises:
        ValueError: the arrays do not belong together.
    """
    check_table(h, table, rows)
    if h.size == 0 or table.size == 0:
        return mx.zeros((h.shape[0], table.shape[1]), dtype=h.dtype)
    index = () if rows is None else (rows,)
    return _form(h.shape[1], table.shape[0]).gradient("w", {"h": h, "table": table}, index)
