"""Text of the kernels of the convolution family: the adjoints at one edge.

What a lane adds up or stores for a path of an edge, whoever holds x, g and the sums to x: the
receiver in `convolution_bodies`, the sender in `convolution_sender_body`.
"""

from __future__ import annotations

from dataclasses import dataclass

from .convolution_plan import Shape, ShapePath
from .convolution_text import Sizes, counting, lane_names, matrix, per_lane, scaled
from .lane_sums import store_lane_sums
from .vectors import write


@dataclass(frozen=True)
class EdgeNames:
    """What the values of an edge are called.

    Args:
        u: number of the edge among those in work.
        x: before the component of x.
        g: before path and component of g.
        x_bar: before the component of what is added to the adjoint to x.
    """

    u: int
    x: str
    g: str
    x_bar: str


def edge_sums(sizes: Sizes, targets: str) -> int:
    """Numbers of an edge that are sums over channels: of the adjoints to y and h."""
    return sizes.dim_y * ("y" in targets) + sizes.coefficients * ("h" in targets)


def sum_names(sizes: Sizes, targets: str, u: int) -> list[str]:
    """Names of the sums over channels of an edge."""
    of_y = [f"b{u}_{j}" for j in range(sizes.dim_y)] if "y" in targets else []
    return of_y + ([f"d{u}_{m}" for m in range(sizes.coefficients)] if "h" in targets else [])


def path_adjoints(shape: Shape, sizes: Sizes, targets: str, p: int, names: EdgeNames) -> list[str]:
    """What a path of an edge adds to the adjoints wanted, of x, y, w and h."""
    path, lines = shape.paths[p], []
    if targets != "y":
        lines += _products_with_g(shape, sizes, targets, p, names)
    if "y" in targets:
        lines += _adjoint_to_y(shape, path, p, names)
    return lines


def _products_with_g(
    shape: Shape, sizes: Sizes, targets: str, p: int, names: EdgeNames
) -> list[str]:
    """h = M g, and what follows from it."""
    v, u, path = shape.width, names.u, shape.paths[p]
    guard = " && ".join(counting(shape, u))
    lines, rows = matrix_times_g(shape, p, names)
    if "x" in targets:
        lines += [per_lane(v, f"{names.x_bar}{i}_$ += w{u}_{p}_$ * h{i}_$;") for i in rows]
    if "w" in targets or "h" in targets:
        lines.append(weight_adjoint(shape, rows, names))
    if "w" in targets:
        store = write(
            lane_names("wb", v),
            "w_bar",
            f"INDEX(e{u}) * {sizes.n_weights} + w_start + {path.w_offset}",
            sizes.word,
        )
        lines.append(f"if ({guard}) {{ {store} }}" if guard else store)
    if "h" in targets:
        for m in range(sizes.coefficients):
            total = " + ".join(f"t{u}_{m}_{c} * wb_{c}" for c in range(v))
            lines.append(f"d{u}_{m} += {f'({guard}) ? {total} : 0.0f' if guard else total};")
    return lines


def matrix_times_g(shape: Shape, p: int, names: EdgeNames) -> tuple[list[str], list[int]]:
    """Statements for h = M g, and the components that are not zero."""
    path = shape.paths[p]
    lines, entries = matrix(path, shape.d1, names.u)
    rows = [i for i in range(shape.d1) if any((i, k) in entries for k in range(path.d3))]
    for i in rows:
        terms = [(k, entries[i, k]) for k in range(path.d3) if (i, k) in entries]
        total = " + ".join(f"{m} * {names.g}{p}_{k}_$" for k, m in terms)
        lines.append(per_lane(shape.width, f"const float h{i}_$ = {total};"))
    return lines, rows


def weight_adjoint(shape: Shape, rows: list[int], names: EdgeNames) -> str:
    """The adjoint to the weight of a path, from h = M g."""
    total = " + ".join(f"{names.x}{i}_$ * h{i}_$" for i in rows) or "0.0f"
    return per_lane(shape.width, f"const float wb_$ = {total};")


def _adjoint_to_y(shape: Shape, path: ShapePath, p: int, names: EdgeNames) -> list[str]:
    v, u, lines = shape.width, names.u, []
    terms = path.terms(shape.d1)
    for i in sorted({i for i, _ in terms}):
        lines.append(per_lane(v, f"const float z{i}_$ = w{u}_{p}_$ * {names.x}{i}_$;"))
    for (i, k), columns in terms.items():
        total = " + ".join(f"z{i}_{c} * {names.g}{p}_{k}_{c}" for c in range(v))
        lines.append(f"const float q{i}_{k} = {total};")
        lines += [f"b{u}_{j} += {scaled(c, f'q{i}_{k}')};" for j, c in columns]
    return lines


def store_sums(shape: Shape, sizes: Sizes, targets: str, u: int, of_edges: str) -> list[str]:
    """Store the sums over channels of an edge, in the columns of this kind.

    Args:
        shape: of the part.
        sizes: row lengths.
        targets: of "y" and "h" those wanted.
        u: number of the edge.
        of_edges: an input with a row for each edge.
    """
    n_sums = edge_sums(sizes, targets)
    if not n_sums:
        return []
    row = f"(INDEX(kind_number) * {of_edges}_shape[0] + e{u}) * {n_sums}"
    return [
        f"const INDEX to_sums{u} = {row};",
        *store_lane_sums(
            sum_names(sizes, targets, u),
            shape.lanes,
            "sums",
            f"to_sums{u}",
            f"live{u}" if shape.slots > 1 or u else "",
        ),
    ]
