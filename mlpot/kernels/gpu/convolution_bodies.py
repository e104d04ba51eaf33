"""Text of the kernels of the convolution family: how one shape is computed.

Per edge and path, with M[i, k] = sum_j C[i, j, k] y[j] the matrix of the edge,

    out[k] += w sum_i M[i, k] x[i]              h[i] = sum_k M[i, k] g[k]
    x_bar[i] += w h[i]      w_bar = sum_i x[i] h[i]
    y_bar[j] += sum_ik C[i, j, k] sum_c w x[i] g[k]

so the coefficients meet numbers without channels only, and every channel costs plain products.
"""

from __future__ import annotations

from .convolution_plan import Shape, ShapePath
from .convolution_text import (
    FIRST_OUT,
    Sizes,
    counting,
    guarded,
    lane_edge,
    lane_names,
    load_coefficients,
    load_g,
    load_w,
    load_x,
    load_y,
    matrix,
    path_weights,
    per_lane,
    prologue,
    scaled,
    sum_over_slots,
)
from .lane_sums import store_lane_sums
from .vectors import write


def receiver_body(shape: Shape, sizes: Sizes, unroll: int) -> str:
    """Sums at the receivers: the forward map."""
    v = shape.width
    lines = prologue(shape)
    for p, path in enumerate(shape.paths):
        for k in range(path.d3):
            lines.append(f"float {', '.join(f'{n} = 0.0f' for n in lane_names(f'a{p}_{k}', v))};")
    lines.append(f"for (int first = start; first < stop; first += {shape.slots * unroll}) {{")
    for u in range(unroll):
        lines += lane_edge(shape, u)
        lines.append(f"const int sender{u} = LOAD(senders, e{u});")
    for u in range(unroll):
        lines += load_w(shape, sizes, u) + load_y(shape, sizes, u)
        lines += load_x(shape, sizes, u, f"sender{u}")
    for u in range(unroll):
        for p, path in enumerate(shape.paths):
            m_lines, entries = matrix(path, shape.d1, u)
            lines += ["{", *path_weights(shape, sizes, p, u), *m_lines]
            for k in range(path.d3):
                terms = [(i, entries[i, k]) for i in range(shape.d1) if (i, k) in entries]
                if terms:
                    total = " + ".join(f"{m} * x{u}_{i}_$" for i, m in terms)
                    lines.append(per_lane(v, f"a{p}_{k}_$ += w{u}_{p}_$ * ({total});"))
            lines.append("}")
    lines.append("}")
    for p, path in enumerate(shape.paths):
        for k in range(path.d3):
            lines += sum_over_slots(shape, lane_names(f"a{p}_{k}", v))
    lines += guarded(
        shape,
        [
            line
            for p, path in enumerate(shape.paths)
            for line in [
                f"const INDEX row{p} = INDEX(node) * {sizes.dim_out} "
                f"+ mlpot_kinds[kind + {FIRST_OUT + p}] + channel;",
                *(
                    write(
                        lane_names(f"a{p}_{k}", v),
                        "out",
                        f"row{p} + {k * path.out_stride}",
                        sizes.word,
                    )
                    for k in range(path.d3)
                ),
            ]
        ],
    )
    return "\n".join(lines)


def sender_body(shape: Shape, sizes: Sizes, unroll: int) -> str:
    """Sums at the senders: the adjoint to x."""
    v = shape.width
    lines = prologue(shape)
    for i in range(shape.d1):
        lines.append(f"float {', '.join(f'{n} = 0.0f' for n in lane_names(f'a{i}', v))};")
    lines.append(f"for (int first = start; first < stop; first += {shape.slots * unroll}) {{")
    for u in range(unroll):
        lines += lane_edge(shape, u, "place")
        lines.append(f"const int e{u} = LOAD(sender_perm, place{u});")
        lines.append(f"const int receiver{u} = LOAD(receivers, e{u});")
    for u in range(unroll):
        lines += load_w(shape, sizes, u) + load_y(shape, sizes, u)
    for p, path in enumerate(shape.paths):
        lines.append("{")
        for u in range(unroll):
            lines += load_g(shape, sizes, p, f"{u}_", f"receiver{u}")
        for u in range(unroll):
            m_lines, entries = matrix(path, shape.d1, u)
            lines += ["{", *path_weights(shape, sizes, p, u), *m_lines]
            for i in range(shape.d1):
                terms = [(k, entries[i, k]) for k in range(path.d3) if (i, k) in entries]
                if terms:
                    total = " + ".join(f"{m} * g{u}_{p}_{k}_$" for k, m in terms)
                    lines.append(per_lane(v, f"a{i}_$ += w{u}_{p}_$ * ({total});"))
            lines.append("}")
        lines.append("}")
    lines.append("}")
    for i in range(shape.d1):
        lines += sum_over_slots(shape, lane_names(f"a{i}", v))
    stores = [f"const INDEX row = INDEX(node) * {sizes.dim_x} + x_start;"]
    stores += [
        write(lane_names(f"a{i}", v), "x_bar", f"row + {i * shape.x_stride}", sizes.word)
        for i in range(shape.d1)
    ]
    return "\n".join(lines + guarded(shape, stores))


def edge_sums(sizes: Sizes, targets: str) -> int:
    """Numbers of an edge that are sums over channels: of the adjoints to y and h."""
    return sizes.dim_y * ("y" in targets) + sizes.coefficients * ("h" in targets)


def edge_body(shape: Shape, sizes: Sizes, targets: str, unroll: int) -> str:
    """Adjoints at the edges of a receiver: any of y, w (or h), and the messages x to senders."""
    lines = prologue(shape)
    for p in range(len(shape.paths)):
        lines += load_g(shape, sizes, p, "_", "node")
    lines.append(f"for (int first = start; first < stop; first += {shape.slots * unroll}) {{")
    for u in range(unroll):
        lines += lane_edge(shape, u)
        if targets != "x":
            lines.append(f"const int sender{u} = LOAD(senders, e{u});")
    for u in range(unroll):
        if targets != "w":
            lines += load_w(shape, sizes, u)
        if targets != "y":
            lines += load_y(shape, sizes, u)
        if targets != "x":
            lines += load_x(shape, sizes, u, f"sender{u}")
    n_sums = edge_sums(sizes, targets)
    for u in range(unroll):
        lines += _edge_values(shape, sizes, targets, u)
        if n_sums:
            lines.append(
                f"const INDEX to_sums{u} = (INDEX(kind_number) * senders_shape[0] + e{u})"
                f" * {n_sums};"
            )
            lines += store_lane_sums(
                _sum_names(sizes, targets, u),
                shape.lanes,
                "sums",
                f"to_sums{u}",
                f"live{u}" if shape.slots > 1 or u else "",
            )
    lines.append("}")
    return "\n".join(lines)


def _sum_names(sizes: Sizes, targets: str, u: int) -> list[str]:
    of_y = [f"b{u}_{j}" for j in range(sizes.dim_y)] if "y" in targets else []
    return of_y + ([f"d{u}_{m}" for m in range(sizes.coefficients)] if "h" in targets else [])


def _edge_values(shape: Shape, sizes: Sizes, targets: str, u: int) -> list[str]:
    v, lines = shape.width, []
    if "x" in targets:
        for i in range(shape.d1):
            lines.append(f"float {', '.join(f'{n} = 0.0f' for n in lane_names(f'n{u}_{i}', v))};")
    lines += [f"float {name} = 0.0f;" for name in _sum_names(sizes, targets, u)]
    guard = " && ".join(counting(shape, u))
    for p, path in enumerate(shape.paths):
        lines += ["{", *path_weights(shape, sizes, p, u)]
        if targets != "y":
            lines += _products_with_g(shape, sizes, targets, path, p, u, guard)
        if "y" in targets:
            lines += _adjoint_to_y(shape, path, p, u)
        lines.append("}")
    if "x" in targets:
        stores = [f"const INDEX to_x{u} = INDEX(e{u}) * {sizes.dim_x} + x_start;"]
        stores += [
            write(
                lane_names(f"n{u}_{i}", v), "messages", f"to_x{u} + {i * shape.x_stride}", "float"
            )
            for i in range(shape.d1)
        ]
        lines += [f"if ({guard}) {{", *stores, "}"] if guard else stores
    return lines


def _products_with_g(
    shape: Shape, sizes: Sizes, targets: str, path: ShapePath, p: int, u: int, guard: str
) -> list[str]:
    """h = M g, and what follows from it."""
    v = shape.width
    lines, rows = _matrix_times_g(shape, path, u, f"g_{p}")
    if "x" in targets:
        lines += [per_lane(v, f"n{u}_{i}_$ += w{u}_{p}_$ * h{i}_$;") for i in rows]
    if "w" in targets or "h" in targets:
        lines.append(_weight_adjoint(shape, rows, u))
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


def _matrix_times_g(shape: Shape, path: ShapePath, u: int, g: str) -> tuple[list[str], list[int]]:
    """Statements for h = M g, and the components that are not zero."""
    lines, entries = matrix(path, shape.d1, u)
    rows = [i for i in range(shape.d1) if any((i, k) in entries for k in range(path.d3))]
    for i in rows:
        terms = [(k, entries[i, k]) for k in range(path.d3) if (i, k) in entries]
        total = " + ".join(f"{m} * {g}_{k}_$" for k, m in terms)
        lines.append(per_lane(shape.width, f"const float h{i}_$ = {total};"))
    return lines, rows


def _weight_adjoint(shape: Shape, rows: list[int], u: int) -> str:
    total = " + ".join(f"x{u}_{i}_$ * h{i}_$" for i in rows) or "0.0f"
    return per_lane(shape.width, f"const float wb_$ = {total};")


def _adjoint_to_y(shape: Shape, path: ShapePath, p: int, u: int) -> list[str]:
    v, lines = shape.width, []
    terms = path.terms(shape.d1)
    for i in sorted({i for i, _ in terms}):
        lines.append(per_lane(v, f"const float z{i}_$ = w{u}_{p}_$ * x{u}_{i}_$;"))
    for (i, k), columns in terms.items():
        total = " + ".join(f"z{i}_{c} * g_{p}_{k}_{c}" for c in range(v))
        lines.append(f"const float q{i}_{k} = {total};")
        lines += [f"b{u}_{j} += {scaled(c, f'q{i}_{k}')};" for j, c in columns]
    return lines


def table_body(shape: Shape, sizes: Sizes) -> str:
    """Sums over the edges of a row of the table, which "node" stands for: the adjoint to it.

    The blocks along y share the edges of a row; each writes sums of its own.
    """
    v, n_coefficients = shape.width, sizes.coefficients
    lines = prologue(shape)
    sums = {
        (p, m): lane_names(f"a{p}_{m}", v)
        for p in range(len(shape.paths))
        for m in range(n_coefficients)
    }
    for names in sums.values():
        lines.append(f"float {', '.join(f'{n} = 0.0f' for n in names)};")
    lines.append(
        f"for (int first = start + BLOCK_Y * {shape.slots}; first < stop; "
        f"first += BLOCKS_Y * {shape.slots}) {{"
    )
    lines += lane_edge(shape, 0, "place")
    lines += [
        "const int e0 = LOAD(row_perm, place0);",
        "const int sender0 = LOAD(senders, e0), receiver0 = LOAD(receivers, e0);",
    ]
    lines += load_coefficients(shape, sizes, 0) + load_y(shape, sizes, 0)
    lines += load_x(shape, sizes, 0, "sender0")
    for p, path in enumerate(shape.paths):
        lines += ["{", *load_g(shape, sizes, p, "0_", "receiver0")]
        products, rows = _matrix_times_g(shape, path, 0, f"g0_{p}")
        lines += [*products, _weight_adjoint(shape, rows, 0)]
        for m in range(n_coefficients):
            lines.append(per_lane(v, f"a{p}_{m}_$ += c0_{m} * wb_$;"))
        lines.append("}")
    lines.append("}")
    for names in sums.values():
        lines += sum_over_slots(shape, names)
    row = f"(INDEX(BLOCK_Y) * n_nodes + node) * {n_coefficients * sizes.n_weights} + w_start"
    stores = [f"const INDEX to = {row};"]
    for (p, m), names in sums.items():
        place = f"to + {m * sizes.n_weights + shape.paths[p].w_offset}"
        stores.append(write(names, "parts", place, "float"))
    return "\n".join(lines + guarded(shape, stores))
