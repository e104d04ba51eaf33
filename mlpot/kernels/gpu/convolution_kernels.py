"""The kernels of the convolution family for one specification and one type of storage."""

from __future__ import annotations

from dataclasses import dataclass

from ..convolution_spec import ConvolutionSpec
from .convolution_bodies import edge_body, receiver_body, table_body
from .convolution_plan import Layout, layout
from .convolution_sender_body import sender_body
from .convolution_tasks import fill_gaps, header, tasks, tiled_tasks
from .convolution_text import Sizes
from .generated import GeneratedKernel
from .vectors import WIDTHS, read, write

#: Arrays of a convolution that are read in vectors of channels.
VECTORS = ("x", "w", "g", "table")


@dataclass(frozen=True)
class Tuning:
    """What is chosen by measurement.

    Args:
        width: most channels a lane.
        components: most output components times channels that a lane keeps in registers.
        unroll: edges whose data are under way together.
        warps: of a block.
        lanes: fewest lanes of an edge, where that leaves each two channels or more (senders).
        ahead: whether numbers of edges are read one step ahead (senders).
    """

    width: int = 4
    components: int = 64
    unroll: int = 1
    warps: int = 4
    lanes: int = 1
    ahead: bool = False


@dataclass(frozen=True)
class NodeKernel:
    """A kernel that has a warp for every node and kind of work."""

    kernel: GeneratedKernel
    plan: Layout
    warps: int

    def blocks(self, n_nodes: int) -> int:
        """Blocks of the grid."""
        return -(-n_nodes // self.warps) * len(self.plan.kinds)


def forward_kernel(spec: ConvolutionSpec, sizes: Sizes, tuning: Tuning) -> NodeKernel:
    """out, from x, y and w."""
    plan = layout(spec, tuning.width, tuning.components)
    bodies = [receiver_body(shape, sizes, tuning.unroll) for shape in plan.shapes]
    kernel = GeneratedKernel(
        _name("convolution", sizes),
        ["x", "y", *_weight_inputs(sizes), "senders", "receiver_ptr"],
        ["out"],
        tasks(plan, bodies, "receiver_ptr", sizes.dim_x, tuning.warps),
        header(plan.kinds),
        VECTORS,
    )
    return NodeKernel(kernel, plan, tuning.warps)


def sender_kernel(
    spec: ConvolutionSpec, sizes: Sizes, targets: str, tuning: Tuning, tile_nodes: int = 0
) -> NodeKernel:
    """Adjoints at the senders: that to x, and any of "y", "w" and "h" with it, without messages.

    The adjoints to y and h come as columns of parts, one a kind, to be added.

    Args:
        spec: the paths.
        sizes: row lengths.
        targets: those wanted, "x" among them.
        tuning: how.
        tile_nodes: receivers whose rows of g stay in the cache: tiles of at most so many are done
            one after the other, and the adjoint to x comes as one part a tile; 0: all at a time.
    """
    plan = layout(spec, tuning.width, 0, tuning.lanes)
    row = f"{'(INDEX(tile) * n_nodes + node)' if tile_nodes else 'INDEX(node)'} * {sizes.dim_x}"
    word = "float" if tile_nodes else sizes.word
    bodies = [
        sender_body(shape, sizes, targets, row, word, tuning.unroll, tuning.ahead)
        for shape in plan.shapes
    ]
    after = fill_gaps(plan, "x_bar", row, word)
    name = "convolution_x" if targets == "x" else f"convolution_{targets}_at_senders"
    inputs = ["x"] * (targets != "x") + ["y", *_weight_inputs(sizes)]
    inputs += ["g", "receivers", "sender_perm", "sender_ptr"]
    if tile_nodes:
        body = tiled_tasks(plan, bodies, tile_nodes, tuning.warps, after)
    else:
        body = tasks(plan, bodies, "sender_ptr", sizes.dim_out, tuning.warps, after)
    kernel = GeneratedKernel(
        _name(name + ("_tiled" if tile_nodes else ""), sizes),
        inputs + ["receiver_ptr"] * bool(tile_nodes),
        ["x_bar", *_edge_outputs(targets)],
        body,
        header(plan.kinds),
        VECTORS,
    )
    return NodeKernel(kernel, plan, tuning.warps)


def _edge_outputs(targets: str) -> list[str]:
    sums = ["sums"] * ("y" in targets or "h" in targets)
    return sums + ["w_bar"] * ("w" in targets)


def edge_kernel(spec: ConvolutionSpec, sizes: Sizes, targets: str, tuning: Tuning) -> NodeKernel:
    """Adjoints at the edges: any of "x" (messages to be summed at senders), "y", and "w" or "h".

    The adjoints to y and h come as columns of parts, one a kind, to be added.
    """
    plan = layout(spec, tuning.width, tuning.components)
    bodies = [edge_body(shape, sizes, targets, tuning.unroll) for shape in plan.shapes]
    inputs = ["x"] * (targets != "x") + ["y"] * (targets != "y")
    inputs += _weight_inputs(sizes) if targets != "w" else []
    senders = ["senders"] * (targets != "x")
    kernel = GeneratedKernel(
        _name(f"convolution_{targets}_at_edges", sizes),
        [*inputs, "g", *senders, "receiver_ptr"],
        ["messages"] * ("x" in targets) + _edge_outputs(targets),
        tasks(plan, bodies, "receiver_ptr", sizes.dim_x, tuning.warps),
        header(plan.kinds),
        VECTORS,
    )
    return NodeKernel(kernel, plan, tuning.warps)


def _weight_inputs(sizes: Sizes) -> list[str]:
    return ["h", "table", "rows"] if sizes.coefficients else ["w"]


def _name(name: str, sizes: Sizes) -> str:
    return f"radial_{name}" if sizes.coefficients else name


def table_kernel(spec: ConvolutionSpec, sizes: Sizes, tuning: Tuning) -> NodeKernel:
    """The adjoint to the table, for each row that edges start at: sums of h times that to w.

    Parts (blocks along y, rows, coefficients, n_weights), to be added by `table_sum_kernel`.
    """
    plan = layout(spec, tuning.width, tuning.components)
    bodies = [table_body(shape, sizes) for shape in plan.shapes]
    kernel = GeneratedKernel(
        _name("convolution_table", sizes),
        ["x", "y", "h", "g", "senders", "receivers", "row_perm", "row_ptr"],
        ["parts"],
        tasks(plan, bodies, "row_ptr", sizes.dim_x + sizes.dim_out, tuning.warps),
        header(plan.kinds),
        VECTORS,
    )
    return NodeKernel(kernel, plan, tuning.warps)


def table_sum_kernel(sizes: Sizes) -> tuple[GeneratedKernel, int]:
    """Parts of `table_kernel` summed to the rows that they belong to; threads for each row."""
    width = widest(sizes.n_weights)
    columns = sizes.n_weights // width
    totals, terms = [f"sum{v}" for v in range(width)], [f"term{v}" for v in range(width)]
    n_coefficients = sizes.coefficients
    body = f"""
const int item = GLOBAL_X;
const int row = item / {columns}, column = (item - row * {columns}) * {width};
const int n_firsts = parts_shape[1];
if (row < n_firsts + {n_coefficients - 1}) {{
  float {", ".join(f"{t} = 0.0f" for t in totals)};
  for (int part = 0; part < parts_shape[0]; ++part) {{
    for (int m = 0; m < {n_coefficients}; ++m) {{
      const int first = row - m;
      if (first >= 0 && first < n_firsts) {{
        const INDEX place = ((INDEX(part) * n_firsts + first) * {n_coefficients} + m)
            * {sizes.n_weights} + column;
        {read(terms, "parts", "place", stream=True)}
        {" ".join(f"{a} += {b};" for a, b in zip(totals, terms, strict=True))}
      }}
    }}
  }}
  {write(totals, "table_bar", f"INDEX(row) * {sizes.n_weights} + column", sizes.word)}
}}
"""
    name = _name("convolution_table_sum", sizes)
    return GeneratedKernel(name, ["parts"], ["table_bar"], body, "VECTOR_WORDS\n"), columns


def widest(columns: int) -> int:
    """Neighbouring columns that a thread can take together."""
    return next(n for n in reversed(WIDTHS) if columns % n == 0)


def message_sum_kernel(width: int, word: str) -> GeneratedKernel:
    """Messages summed at their senders; a thread takes ``width`` columns of a node.

    It serves every specification, as compiling a kernel takes a second or two.
    """
    totals, terms = [f"sum{v}" for v in range(width)], [f"term{v}" for v in range(width)]
    body = f"""
const int dim_x = messages_shape[1];
const int columns = dim_x / {width};
const int item = GLOBAL_X;
const int node = item / columns, column = (item - node * columns) * {width};
if (node < sender_ptr_shape[0] - 1) {{
  float {", ".join(f"{t} = 0.0f" for t in totals)};
  const int stop = LOAD(sender_ptr, node + 1);
  for (int place = LOAD(sender_ptr, node); place < stop; ++place) {{
    const INDEX row = INDEX(LOAD(sender_perm, place)) * dim_x + column;
    {read(terms, "messages", "row", stream=True)}
    {" ".join(f"{a} += {b};" for a, b in zip(totals, terms, strict=True))}
  }}
  {write(totals, "x_bar", "INDEX(node) * dim_x + column", word)}
}}
"""
    names = ["messages", "sender_perm", "sender_ptr"]
    return GeneratedKernel("convolution_messages", names, ["x_bar"], body, "VECTOR_WORDS\n")
