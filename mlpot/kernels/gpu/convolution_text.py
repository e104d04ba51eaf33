"""Text of the kernels of the convolution family: what all of them share.

Which edge and channels a lane has, and how it reads the arrays. Names in the
text: ``x{u}_{i}_{v}`` is component i of channel v of the u-th edge in work, ``w{u}_{p}_{v}`` the
weight of path p, ``g{..}{p}_{k}_{v}`` component k of its output block, ``y{u}_{j}`` a harmonic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .convolution_plan import Shape, ShapePath
from .dialect import literal
from .vectors import read

#: Columns of the table of kinds before the output blocks: shape, channel, x, w.
FIRST_OUT = 4


@dataclass(frozen=True)
class Sizes:
    """Row lengths, and the word for the type that is stored.

    With ``coefficients`` M > 0 the weights of an edge are sums over M rows of a table, see
    `mlpot.kernels.edge_weights`; with 0 they are given.
    """

    dim_x: int
    dim_y: int
    n_weights: int
    dim_out: int
    word: str = "float"
    coefficients: int = 0


def lane_names(stem: str, width: int) -> list[str]:
    """Names of a value for each channel of a lane."""
    return [f"{stem}_{v}" for v in range(width)]


def per_lane(width: int, line: str) -> str:
    """The statement for each channel of a lane, ``$`` being its number."""
    return " ".join(line.replace("$", str(v)) for v in range(width))


def prologue(shape: Shape) -> list[str]:
    """Which edge and which channels a lane has, and where its blocks start."""
    lines = [
        f"const int slot = LANE / {shape.lanes};" if shape.slots > 1 else "",
        f"const int own = mlpot_kinds[kind + 1] + (LANE % {shape.lanes}) * {shape.width};",
    ]
    if shape.masked:
        # Lanes without a channel follow the first one's, and count for nothing.
        lines += [f"const bool alive = own < {shape.mul};", "const int channel = alive ? own : 0;"]
    else:
        lines += ["const int channel = own;"]
    lines += [
        "const int x_start = mlpot_kinds[kind + 2] + channel;",
        "const int w_start = mlpot_kinds[kind + 3] + channel;",
    ]
    return lines


def lane_edge(shape: Shape, u: int, number: str = "e") -> list[str]:
    """The edge of a lane in the step that starts at ``first``; ``live``: there is one."""
    ahead = f"first + {u * shape.slots}" + (" + slot" if shape.slots > 1 else "")
    lines = [f"const int at{u} = {ahead};"]
    if shape.slots > 1 or u:
        lines += [
            f"const bool live{u} = at{u} < stop;",
            f"const int {number}{u} = live{u} ? at{u} : stop - 1;",
        ]
    else:
        lines += [f"const int {number}{u} = at{u};"]
    return lines


def counting(shape: Shape, u: int) -> list[str]:
    """What has to hold for a lane to count."""
    found = ["alive"] if shape.masked else []
    return found + ([f"live{u}"] if shape.slots > 1 or u else [])


def load_y(shape: Shape, sizes: Sizes, u: int) -> list[str]:
    """Read the harmonics of an edge."""
    row = f"const INDEX y_row{u} = INDEX(e{u}) * {sizes.dim_y};"
    return [row, *(read([f"y{u}_{j}"], "y", f"y_row{u} + {j}") for j in shape.y_columns)]


def load_w(shape: Shape, sizes: Sizes, u: int) -> list[str]:
    """Read the weights of an edge, or its coefficients; zero for lanes that do not count."""
    if sizes.coefficients:
        return load_coefficients(shape, sizes, u) + _table_row(sizes, u)
    lines = [f"const INDEX w_row{u} = INDEX(e{u}) * {sizes.n_weights} + w_start;"]
    for p, path in enumerate(shape.paths):
        names = lane_names(f"w{u}_{p}", shape.width)
        lines.append(read(names, "w", f"w_row{u} + {path.w_offset}", stream=True))
        lines += _zero_unless_counting(shape, u, names)
    return lines


def load_coefficients(shape: Shape, sizes: Sizes, u: int) -> list[str]:
    """Read the coefficients of an edge; zero for lanes that do not count."""
    names = [f"c{u}_{m}" for m in range(sizes.coefficients)]
    lines = [f"const INDEX c_row{u} = INDEX(e{u}) * {sizes.coefficients};"]
    lines += [read([name], "h", f"c_row{u} + {m}") for m, name in enumerate(names)]
    return lines + _zero_unless_counting(shape, u, names)


def _zero_unless_counting(shape: Shape, u: int, names: Sequence[str]) -> list[str]:
    conditions = " && ".join(counting(shape, u))
    return [f"if (!({conditions})) {name} = 0.0f;" for name in names] if conditions else []


def _table_row(sizes: Sizes, u: int) -> list[str]:
    """Where the rows of an edge start; one whose rows do not exist becomes NaN."""
    spoilt = " ".join(f"c{u}_{m} = NOT_A_NUMBER;" for m in range(sizes.coefficients))
    return [
        f"int row{u} = LOAD(rows, e{u});",
        f"if (row{u} < 0 || row{u} > table_shape[0] - {sizes.coefficients}) "
        f"{{ row{u} = 0; {spoilt} }}",
        f"const INDEX t_row{u} = INDEX(row{u}) * {sizes.n_weights} + w_start;",
    ]


def path_weights(shape: Shape, sizes: Sizes, p: int, u: int) -> list[str]:
    """Combine the rows of a table to the weights of a path, where they are not given."""
    lines = []
    for m in range(sizes.coefficients):
        place = f"t_row{u} + {m * sizes.n_weights + shape.paths[p].w_offset}"
        lines.append(read(lane_names(f"t{u}_{m}", shape.width), "table", place))
    if lines:
        total = " + ".join(f"c{u}_{m} * t{u}_{m}_$" for m in range(sizes.coefficients))
        lines.append(per_lane(shape.width, f"const float w{u}_{p}_$ = {total};"))
    return lines


def load_x(shape: Shape, sizes: Sizes, u: int, node: str) -> list[str]:
    """Read the block of x at a node."""
    lines = [f"const INDEX x_row{u} = INDEX({node}) * {sizes.dim_x} + x_start;"]
    for i in range(shape.d1):
        names = lane_names(f"x{u}_{i}", shape.width)
        lines.append(read(names, "x", f"x_row{u} + {i * shape.x_stride}"))
    return lines


def load_g(shape: Shape, sizes: Sizes, p: int, stem: str, node: str) -> list[str]:
    """Read the output block of a path at a node."""
    path = shape.paths[p]
    row = f"g_row_{stem}{p}"
    lines = [
        f"const INDEX {row} = INDEX({node}) * {sizes.dim_out} "
        f"+ mlpot_kinds[kind + {FIRST_OUT + p}] + channel;"
    ]
    for k in range(path.d3):
        names = lane_names(f"g{stem}{p}_{k}", shape.width)
        lines.append(read(names, "g", f"{row} + {k * path.out_stride}"))
    return lines


def scaled(factor: float, name: str) -> str:
    """factor * name."""
    return name if factor == 1.0 else f"{literal(factor)} * {name}"


def matrix(path: ShapePath, d1: int, u: int) -> tuple[list[str], dict[tuple[int, int], str]]:
    """Statements for the matrix M of an edge, and the name of each entry."""
    lines, names = [], {}
    for (i, k), terms in path.terms(d1).items():
        names[i, k] = f"m{i}_{k}"
        total = " + ".join(scaled(c, f"y{u}_{j}") for j, c in terms)
        lines.append(f"const float m{i}_{k} = {total};")
    return lines, names


def sum_over_slots(shape: Shape, names: Sequence[str]) -> list[str]:
    """Add up what the edges of a warp have, in a fixed order."""
    lines, distance = [], shape.lanes
    while distance < shape.lanes * shape.slots:
        lines += [f"{n} += SHUFFLE_XOR({n}, {distance});" for n in names]
        distance *= 2
    return lines


def guarded(shape: Shape, stores: list[str]) -> list[str]:
    """Stores by the lanes of the first slot that have a channel."""
    conditions = (["slot == 0"] if shape.slots > 1 else []) + (["alive"] if shape.masked else [])
    return [f"if ({' && '.join(conditions)}) {{", *stores, "}"] if conditions else stores
