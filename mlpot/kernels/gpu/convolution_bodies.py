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
    load_g,
    load_w,
    load_x,
    load_y,
    matrix,
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
            lines += ["{", *m_lines]
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
            lines += ["{", *m_lines]
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


def edge_body(shape: Shape, sizes: Sizes, targets: str, unroll: int) -> str:
    """Adjoints at the edges of a receiver: any of y, w, and the messages x to the senders."""
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
    for u in range(unroll):
        lines += _edge_values(shape, sizes, targets, u)
        if "y" in targets:
            lines.append(
                f"const INDEX to_y{u} = (INDEX(kind_number) * senders_shape[0] + e{u})"
                f" * {sizes.dim_y};"
            )
            lines += store_lane_sums(
                [f"b{u}_{j}" for j in range(sizes.dim_y)],
                shape.lanes,
                "y_bar",
                f"to_y{u}",
                f"live{u}" if shape.slots > 1 or u else "",
            )
    lines.append("}")
    return "\n".join(lines)


def _edge_values(shape: Shape, sizes: Sizes, targets: str, u: int) -> list[str]:
    v, lines = shape.width, []
    if "x" in targets:
        for i in range(shape.d1):
            lines.append(f"float {', '.join(f'{n} = 0.0f' for n in lane_names(f'n{u}_{i}', v))};")
    if "y" in targets:
        lines.append(f"float {', '.join(f'b{u}_{j} = 0.0f' for j in range(sizes.dim_y))};")
    guard = " && ".join(counting(shape, u))
    for p, path in enumerate(shape.paths):
        lines.append("{")
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
    lines, entries = matrix(path, shape.d1, u)
    rows = [i for i in range(shape.d1) if any((i, k) in entries for k in range(path.d3))]
    for i in rows:
        terms = [(k, entries[i, k]) for k in range(path.d3) if (i, k) in entries]
        total = " + ".join(f"{m} * g_{p}_{k}_$" for k, m in terms)
        lines.append(per_lane(v, f"const float h{i}_$ = {total};"))
    if "x" in targets:
        lines += [per_lane(v, f"n{u}_{i}_$ += w{u}_{p}_$ * h{i}_$;") for i in rows]
    if "w" in targets:
        total = " + ".join(f"x{u}_{i}_$ * h{i}_$" for i in rows) or "0.0f"
        lines.append(per_lane(v, f"const float wb_$ = {total};"))
        store = write(
            lane_names("wb", v),
            "w_bar",
            f"INDEX(e{u}) * {sizes.n_weights} + w_start + {path.w_offset}",
            sizes.word,
        )
        lines.append(f"if ({guard}) {{ {store} }}" if guard else store)
    return lines


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
