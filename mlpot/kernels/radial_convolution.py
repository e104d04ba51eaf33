"""The convolution whose edge weights come from a table and are never written.

    w[e, :] = sum_{m < M} h[e, m] table[rows[e] + m, :]            (see `edge_weights`)
    out     = convolution(spec, x, y, w, edges)

With g the cotangent of out, T = <g, out> is linear in x, y, h, table and g, so every derivative of
any order is one of five maps: to out, x, y, h and the table. Those to y and h share one pass over
the edges, on GPUs those to x and, where it is not fixed, the table too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx
from jaxtyping import Float, Int

from . import dispatch, gpu, native
from .convolution_reference import Plan
from .convolution_spec import ConvolutionSpec
from .edge_weights import (
    adjoint_to_coefficients,
    adjoint_to_table,
    check_table,
    weights_values,
)
from .edges import EdgeIndex, check_array
from .multilinear_form import Arrays, MultilinearForm

_N_EDGE_ARRAYS = 5


def _reference(plan: Plan, n_coefficients: int, n_rows: int):
    """Values of the five maps in plain MLX."""

    def evaluate(
        targets: tuple[str, ...], a: Arrays, edges: EdgeIndex, rows: mx.array | None
    ) -> list[mx.array]:
        results = []
        for target in targets:
            if target in ("out", "x", "y"):
                w = weights_values(a["h"], a["table"], rows)
                if target == "out":
                    results.append(plan.conv(a["x"], a["y"], w, edges))
                elif target == "x":
                    results.append(plan.conv_x(a["y"], w, a["out"], edges))
                else:
                    results.append(plan.conv_y(a["x"], w, a["out"], edges))
                continue
            g = plan.conv_w(a["x"], a["y"], a["out"], edges)
            if target == "h":
                results.append(adjoint_to_coefficients(a["table"], g, rows, n_coefficients))
            else:
                results.append(adjoint_to_table(a["h"], g, rows, n_rows))
        return results

    return evaluate


#: Gradients that one evaluation gives, on CPUs and on GPUs. The rules of differentiation ask for
#: all, and what nobody takes is not evaluated; but an evaluation that gives several does all.
_JOINT = {"cpu": ("y", "h"), "gpu": ("x", "y", "h", "table")}


def _form(
    spec: ConvolutionSpec, n_coefficients: int, n_rows: int, fixed_table: bool
) -> MultilinearForm:
    """The form T of a specification and a size of table."""
    forms = spec.caches.setdefault("radial_forms", {})
    device = "cpu" if gpu.device_refusal() else "gpu"
    joint = [role for role in _JOINT[device] if role != "table" or not fixed_table]
    key = (n_coefficients, n_rows, device, fixed_table)
    if key in forms:
        return forms[key]
    reference = _reference(Plan(spec), n_coefficients, n_rows)

    def evaluate(targets: tuple[str, ...], a: Arrays, index: Sequence[mx.array]):
        edges = EdgeIndex(*index[:_N_EDGE_ARRAYS])
        rows = index[_N_EDGE_ARRAYS] if len(index) > _N_EDGE_ARRAYS else None
        sizes = (n_coefficients, n_rows)

        def gpu_refusal() -> str | None:
            return gpu.radial_convolution_refusal(
                spec, edges.n_nodes, *sizes, rows is not None, *a.values()
            )

        # Backends, fastest first; each computes the gradients to all targets.
        offers = (*gpu.offers(gpu_refusal), ("native", lambda: native.refusal(*a.values())))
        backend = dispatch.choose(f"radial_convolution.{'_'.join(targets)}", offers)
        if backend in ("cuda", "metal"):
            return gpu.radial_convolution(spec, targets, a, edges, rows, *sizes)
        if backend == "native":
            return native.radial_convolution(spec, targets, a, edges, rows, *sizes)
        return reference(targets, a, edges, rows)

    roles = ("x", "y", "h", "table", "out")
    changes = _Changes(spec, n_coefficients, n_rows) if device == "cpu" else None
    forms[key] = MultilinearForm(roles, evaluate, [joint], on_edges=("y", "h"), changes=changes)
    return forms[key]


@dataclass(frozen=True)
class _Changes:
    """Changes of the maps by native kernels."""

    spec: ConvolutionSpec
    n_coefficients: int
    n_rows: int

    def takes(self, targets: tuple[str, ...], arrays: Arrays, changes: Arrays) -> bool:
        if targets not in native.CHANGE_TARGETS or "table" in changes:
            return False
        given = (*arrays.values(), *changes.values())
        offers = (("native", lambda: native.refusal(*given)),)
        name = f"radial_convolution.changes.{'_'.join(targets)}"
        return dispatch.choose(name, offers) == "native"

    def __call__(
        self, targets: tuple[str, ...], arrays: Arrays, changes: Arrays, index: Sequence[mx.array]
    ) -> list[mx.array]:
        edges = EdgeIndex(*index[:_N_EDGE_ARRAYS])
        rows = index[_N_EDGE_ARRAYS] if len(index) > _N_EDGE_ARRAYS else None
        sizes = (self.n_coefficients, self.n_rows)
        return native.radial_changes(self.spec, targets, arrays, changes, edges, rows, *sizes)


def radial_convolution(
    spec: ConvolutionSpec,
    x: Float[mx.array, "n_nodes _"],
    y: Float[mx.array, "_ _"],
    h: Float[mx.array, "_ _"],
    table: Float[mx.array, "_ _"],
    rows: Int[mx.array, " _"] | None,
    edges: EdgeIndex,
    fixed_table: bool = False,
) -> Float[mx.array, "n_nodes dim_out"]:
    """``convolution(spec, x, y, edge_weights(h, table, rows), edges)`` without an array of weights.

    Args:
        spec: the paths.
        x: (n_nodes, dim_x) component-major node features.
        y: (n_edges, dim_y) edge harmonics.
        h: (n_edges, M) coefficients of the table's rows.
        table: (n_rows, n_weights).
        rows: (n_edges,) int32 in 0..n_rows-M, first row of each edge; None: the table has M rows
            and all are used.
        edges: edge list sorted by receiver.
        fixed_table: nobody wants the gradient to the table: it is kept apart from the others, which
            are faster without it (if it is taken after all, it is right).

    Returns:
        (n_nodes, dim_out) component-major.

    Raises:
        ValueError: arrays do not have the sizes that the specification and each other need.
    """
    check_table(h, table, rows)
    check_array("x", x, edges.n_nodes, "nodes", spec.dim_x)
    check_array("y", y, edges.n_edges, "edges", spec.dim_y)
    check_array("h", h, edges.n_edges, "edges", h.shape[1])
    check_array("the table", table, table.shape[0], "rows", spec.n_weights)
    if edges.n_edges == 0 or not spec.paths or h.shape[1] == 0:
        return mx.zeros((x.shape[0], spec.dim_out), dtype=x.dtype)
    index = [*edges.arrays().values(), *(() if rows is None else (rows,))]
    arrays = {"x": x, "y": y, "h": h, "table": table}
    form = _form(spec, h.shape[1], table.shape[0], fixed_table)
    return form.gradient("out", arrays, index)
