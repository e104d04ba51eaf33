"""Text of the kernels of the convolution family: which work a warp does.

The table of kinds of work, and the frames around what `convolution_bodies` and
`convolution_sender_body` write for each shape.
"""

from __future__ import annotations

from collections.abc import Sequence

from .convolution_plan import Kind, Layout
from .convolution_text import FIRST_OUT
from .dialect import SIMD_WIDTH

#: Elements that are gathered at random and stay in the cache (half of an H200's 60 MB L2).
CACHED_ELEMENTS = 6_000_000


def header(kinds: Sequence[Kind]) -> str:
    """Vector words and the table of kinds."""
    stride = kind_stride(kinds)
    rows = []
    for kind in kinds:
        row = [kind.shape, kind.channel, kind.x_offset, kind.w_offset, *kind.out_offsets]
        rows += row + [0] * (stride - len(row))
    numbers = ", ".join(map(str, rows))
    return f"VECTOR_WORDS\nCONSTANT int mlpot_kinds[{len(rows)}] = {{{numbers}}};\n"


def kind_stride(kinds: Sequence[Kind]) -> int:
    """Columns of the table of kinds."""
    return FIRST_OUT + max(len(kind.out_offsets) for kind in kinds)


def tasks(
    plan: Layout,
    bodies: Sequence[str],
    pointer: str,
    gathered: int,
    warps: int,
    after: str = "",
) -> str:
    """A kernel in which each warp does one kind of work for one node.

    All warps of a block do the same kind, for neighbouring nodes, so that they end together. Kinds
    alternate from block to block, but where the rows that are gathered would not stay in the
    cache: there one kind is done for all nodes before the next, as each needs but a part of a row.

    Args:
        plan: shapes and kinds.
        bodies: text for each shape; may use node, kind (its row in the table), start and stop.
        pointer: the array with the first edge of each node.
        gathered: elements of a row that is gathered.
        warps: of a block.
        after: text that follows, for every warp.
    """
    n_kinds = len(plan.kinds)
    return f"""
const int n_nodes = {pointer}_shape[0] - 1;
const int node_blocks = (n_nodes + {warps - 1}) / {warps};
const bool alternate = n_nodes <= {CACHED_ELEMENTS // gathered};
const int kind_number = alternate ? BLOCK_X % {n_kinds} : BLOCK_X / node_blocks;
const int node_block = alternate ? BLOCK_X / {n_kinds} : BLOCK_X - kind_number * node_blocks;
const int node = node_block * {warps} + WARP;
if (node < n_nodes) {{
  const int start = {pointer}[node], stop = {pointer}[node + 1];
  {_work(plan, bodies)}
  {after}
}}
"""


def tiled_tasks(
    plan: Layout, bodies: Sequence[str], tile_nodes: int, warps: int, after: str = ""
) -> str:
    """Each warp does one kind of work for the edges from one sender into one tile of receivers.

    The rows that one tile of receivers has stay in the cache while all senders gather them, one
    kind after the other. Edges are sorted by receiver, and those of a sender by their numbers, so
    the edges into a tile are neighbours in both lists.

    Args:
        plan: shapes and kinds.
        bodies: as for `tasks`; may use tile too.
        tile_nodes: most receivers of a tile.
        warps: of a block.
        after: text that follows, for every warp.
    """
    n_kinds = len(plan.kinds)
    return f"""
const int n_nodes = sender_ptr_shape[0] - 1;
const int node_blocks = (n_nodes + {warps - 1}) / {warps};
const int n_tiles = (n_nodes + {tile_nodes - 1}) / {tile_nodes};
const int tile_nodes = (n_nodes + n_tiles - 1) / n_tiles;
const int tile = BLOCK_X / (node_blocks * {n_kinds});
const int block_of_tile = BLOCK_X - tile * (node_blocks * {n_kinds});
const int kind_number = block_of_tile / node_blocks;
const int node = (block_of_tile - kind_number * node_blocks) * {warps} + WARP;
if (node < n_nodes) {{
  const int first_node = tile * tile_nodes < n_nodes ? tile * tile_nodes : n_nodes;
  const int last_node = first_node + tile_nodes < n_nodes ? first_node + tile_nodes : n_nodes;
  const int first_edge = LOAD(receiver_ptr, first_node), last_edge = LOAD(receiver_ptr, last_node);
  const int of_sender = LOAD(sender_ptr, node), end_of_sender = LOAD(sender_ptr, node + 1);
  float before = 0.0f, within = 0.0f;
  for (int place = of_sender + LANE; place < end_of_sender; place += {SIMD_WIDTH}) {{
    const int edge = LOAD(sender_perm, place);
    if (edge < first_edge) before += 1.0f;
    else if (edge < last_edge) within += 1.0f;
  }}
  const int start = of_sender + int(SIMD_SUM(before)), stop = start + int(SIMD_SUM(within));
  {_work(plan, bodies)}
  {after}
}}
"""


def _work(plan: Layout, bodies: Sequence[str]) -> str:
    """The text for the shape of this warp's kind."""
    chain = " else ".join(
        f"if (shape == {i}) {{\n{body}\n}}" if len(bodies) > 1 else f"{{\n{body}\n}}"
        for i, body in enumerate(bodies)
    )
    return f"""const int kind = kind_number * {kind_stride(plan.kinds)};
  const int shape = mlpot_kinds[kind];
  {chain}"""


def fill_gaps(plan: Layout, array: str, row: str, word: str) -> str:
    """Zeros for the columns of x that no path reads, by the first warp of a node."""
    if not plan.gaps:
        return ""
    loops = "\n".join(
        f"for (int c = {a} + LANE; c < {b}; c += 32) {array}[{row} + c] = {word}(0.0f);"
        for a, b in plan.gaps
    )
    return f"if (kind_number == 0) {{\n{loops}\n}}"
