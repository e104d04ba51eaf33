"""Text of the kernels of the convolution family: what a sender does along its edges.

x of the node lies in registers, as does the sum that becomes its adjoint; the rows of g are
gathered at the receivers. So no messages to x are written, however many adjoints are wanted.
"""

from __future__ import annotations

from .convolution_adjoints import EdgeNames, path_adjoints, store_sums, sum_names
from .convolution_plan import Shape
from .convolution_text import (
    Sizes,
    guarded,
    lane_edge,
    lane_names,
    load_g,
    load_w,
    load_x,
    load_y,
    path_weights,
    prologue,
    sum_over_slots,
)
from .vectors import write


def sender_body(
    shape: Shape, sizes: Sizes, targets: str, row: str, word: str, unroll: int, ahead: bool
) -> str:
    """Adjoints at the edges of a sender: that to x, summed here, and any of y, and w or h.

    Args:
        shape: of the part.
        sizes: row lengths.
        targets: "x", and those of "y", "w" and "h" that are wanted with it.
        row: where the row of the adjoint to x starts.
        word: type that it is stored as.
        unroll: edges whose data are under way together.
        ahead: the numbers of an edge and its receiver, which everything else waits for, are read
            one step ahead.
    """
    v, lines = shape.width, prologue(shape)
    if targets != "x":
        lines += load_x(shape, sizes, 0, "node")
    for i in range(shape.d1):
        lines.append(f"float {', '.join(f'{n} = 0.0f' for n in lane_names(f'a{i}', v))};")
    step = shape.slots * unroll
    for u in range(unroll if ahead else 0):
        lines.append(f"int next_e{u} = 0, next_receiver{u} = 0;")
        lines += ["if (start < stop) {", *_next_edge(shape, u, "start"), "}"]
    lines.append(f"for (int first = start; first < stop; first += {step}) {{")
    for u in range(unroll):
        lines += lane_edge(shape, u, "place")
        if ahead:
            lines.append(f"const int e{u} = next_e{u}, receiver{u} = next_receiver{u};")
            lines += _next_edge(shape, u, f"first + {step}")
        else:
            lines.append(f"const int e{u} = LOAD(sender_perm, place{u});")
            lines.append(f"const int receiver{u} = LOAD(receivers, e{u});")
    for u in range(unroll):
        lines += load_w(shape, sizes, u) + load_y(shape, sizes, u)
        lines += [f"float {name} = 0.0f;" for name in sum_names(sizes, targets, u)]
    for p in range(len(shape.paths)):
        lines.append("{")
        for u in range(unroll):
            lines += load_g(shape, sizes, p, f"{u}_", f"receiver{u}")
        for u in range(unroll):
            names = EdgeNames(u, x="x0_", g=f"g{u}_", x_bar="a")
            lines += ["{", *path_weights(shape, sizes, p, u)]
            lines += [*path_adjoints(shape, sizes, targets, p, names), "}"]
        lines.append("}")
    for u in range(unroll):
        lines += store_sums(shape, sizes, targets, u, "receivers")
    lines.append("}")
    for i in range(shape.d1):
        lines += sum_over_slots(shape, lane_names(f"a{i}", v))
    stores = [f"const INDEX row = {row} + x_start;"]
    stores += [
        write(lane_names(f"a{i}", v), "x_bar", f"row + {i * shape.x_stride}", word)
        for i in range(shape.d1)
    ]
    return "\n".join(lines + guarded(shape, stores))


def _next_edge(shape: Shape, u: int, first: str) -> list[str]:
    """Numbers for the step that starts at ``first``; beyond the end those of the last edge."""
    place = f"{first} + {u * shape.slots}" + (" + slot" if shape.slots > 1 else "")
    return [
        f"next_e{u} = LOAD(sender_perm, {place} < stop ? {place} : stop - 1);",
        f"next_receiver{u} = LOAD(receivers, next_e{u});",
    ]
