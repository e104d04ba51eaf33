"""Text of the kernels of the convolution family: how one shape is computed.

Per edge and path, with M[i, k] = sum_j C[i, j, k] y[j] the matrix of the edge,

    out[k] += w sum_i M[i, k] x[i]              h[i] = sum_k M[i, k] g[k]
    x_bar[i] += w h[i]      w_bar = sum_i x[i] h[i]
    y_bar[j] += sum_ik C[i, j, k] sum_c w x[i] g[k]

so the coefficients meet numbers without channels only, and every channel costs plain products.
"""

from __future__ import annotations

from .convolution_adjoints import (
    EdgeNames,
    matrix_times_g,
    path_adjoints,
    store_sums,
    sum_names,
    weight_adjoint,
)
from .convolution_plan import Shape
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
    sum_over_slots,
)
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


def edge_body(shape: Shape, sizes: Sizes, targets: str, unroll: int, ahead: bool = False) -> str:
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
    for u in range(unroll):
        lines += _edge_values(shape, sizes, targets, u)
        lines += store_sums(shape, sizes, targets, u, "senders")
    lines.append("}")
    return "\n".join(lines)


def _edge_values(shape: Shape, sizes: Sizes, targets: str, u: int) -> list[str]:
    v, lines = shape.width, []
    if "x" in targets:
        for i in range(shape.d1):
            lines.append(f"float {', '.join(f'{n} = 0.0f' for n in lane_names(f'n{u}_{i}', v))};")
    lines += [f"float {name} = 0.0f;" for name in sum_names(sizes, targets, u)]
    names = EdgeNames(u, x=f"x{u}_", g="g_", x_bar=f"n{u}_")
    for p in range(len(shape.paths)):
        lines += ["{", *path_weights(shape, sizes, p, u)]
        lines += [*path_adjoints(shape, sizes, targets, p, names), "}"]
    if "x" in targets:
        guard = " && ".join(counting(shape, u))
        stores = [f"const INDEX to_x{u} = INDEX(e{u}) * {sizes.dim_x} + x_start;"]
        stores += [
            write(
                lane_names(f"n{u}_{i}", v), "messages", f"to_x{u} + {i * shape.x_stride}", "float"
            )
            for i in range(shape.d1)
        ]
        lines += [f"if ({guard}) {{", *stores, "}"] if guard else stores
    return lines


def table_body(shape: Shape, sizes: Sizes) -> str:
    """Sums over the edges of a row of the table, which "node" stands for: the adjoint to it.

    The blocks along y share the edges of a row; each writes sums of its own.
    """
    v, n_coefficients = shape.width, sizes.coefficients
    lines, names = prologue(shape), EdgeNames(0, x="x0_", g="g0_", x_bar="")
    sums = {
        (p, m): lane_names(f"a{p}_{m}", v)
        for p in range(len(shape.paths))
        for m in range(n_coefficients)
    }
    for of_lane in sums.values():
        lines.append(f"float {', '.join(f'{n} = 0.0f' for n in of_lane)};")
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
    for p in range(len(shape.paths)):
        lines += ["{", *load_g(shape, sizes, p, "0_", "receiver0")]
        products, rows = matrix_times_g(shape, p, names)
        lines += [*products, weight_adjoint(shape, rows, names)]
        for m in range(n_coefficients):
            lines.append(per_lane(v, f"a{p}_{m}_$ += c0_{m} * wb_$;"))
        lines.append("}")
    lines.append("}")
    for of_lane in sums.values():
        lines += sum_over_slots(shape, of_lane)
    row = f"(INDEX(BLOCK_Y) * n_nodes + node) * {n_coefficients * sizes.n_weights} + w_start"
    stores = [f"const INDEX to = {row};"]
    for (p, m), of_lane in sums.items():
        place = f"to + {m * sizes.n_weights + shape.paths[p].w_offset}"
        stores.append(write(of_lane, "parts", place, "float"))
    return "\n".join(lines + guarded(shape, stores))
