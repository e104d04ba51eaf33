"""The kernels of the convolution family for one specification and one type of storage."""

from __future__ import annotations

from dataclasses import dataclass

from ..convolution_spec import ConvolutionSpec
from .convolution_bodies import edge_body, receiver_body, sender_body
from .convolution_plan import Layout, layout
from .convolution_text import Sizes, fill_gaps, header, tasks
from .generated import GeneratedKernel
from .vectors import WIDTHS, read, write


@dataclass(frozen=True)
class Tuning:
    """What is chosen by measurement.

    Args:
        width: most channels a lane.
        components: most output components times channels that a lane keeps in registers.
        unroll: edges whose data are under way together.
        warps: of a block.
    """

    width: int = 4
    components: int = 64
    unroll: int = 1
    warps: int = 4


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
        "convolution",
        ["x", "y", "w", "senders", "receiver_ptr"],
        ["out"],
        tasks(plan, bodies, "receiver_ptr", sizes.dim_x, tuning.warps),
        header(plan.kinds),
    )
    return NodeKernel(kernel, plan, tuning.warps)


def sender_kernel(spec: ConvolutionSpec, sizes: Sizes, tuning: Tuning) -> NodeKernel:
    """The adjoint to x, from y, w and g, without messages."""
    plan = layout(spec, tuning.width, 0)
    bodies = [sender_body(shape, sizes, tuning.unroll) for shape in plan.shapes]
    after = fill_gaps(plan, sizes.dim_x, "x_bar", sizes.word)
    kernel = GeneratedKernel(
        "convolution_x",
        ["y", "w", "g", "receivers", "sender_perm", "sender_ptr"],
        ["x_bar"],
        tasks(plan, bodies, "sender_ptr", sizes.dim_out, tuning.warps, after),
        header(plan.kinds),
    )
    return NodeKernel(kernel, plan, tuning.warps)


def edge_kernel(spec: ConvolutionSpec, sizes: Sizes, targets: str, tuning: Tuning) -> NodeKernel:
    """Adjoints at the edges: any of "x" (messages to be summed at senders), "y" and "w".

    The adjoint to y comes in parts, one a kind, to be added.
    """
    plan = layout(spec, tuning.width, tuning.components)
    bodies = [edge_body(shape, sizes, targets, tuning.unroll) for shape in plan.shapes]
    inputs = [role for role in "xyw" if targets != role]
    outputs = {"x": "messages", "y": "y_bar", "w": "w_bar"}
    senders = [] if targets == "x" else ["senders"]
    kernel = GeneratedKernel(
        f"convolution_{targets}_at_edges",
        [*inputs, "g", *senders, "receiver_ptr"],
        [outputs[target] for target in targets],
        tasks(plan, bodies, "receiver_ptr", sizes.dim_x, tuning.warps),
        header(plan.kinds),
    )
    return NodeKernel(kernel, plan, tuning.warps)


def message_sum_kernel(dim_x: int, word: str) -> tuple[GeneratedKernel, int]:
    """Messages summed at their senders; and the threads that a node takes."""
    width = next(n for n in reversed(WIDTHS) if dim_x % n == 0)
    columns = dim_x // width
    totals, terms = [f"sum{v}" for v in range(width)], [f"term{v}" for v in range(width)]
    body = f"""
const int item = GLOBAL_X;
const int node = item / {columns}, column = (item - node * {columns}) * {width};
if (node < sender_ptr_shape[0] - 1) {{
  float {", ".join(f"{t} = 0.0f" for t in totals)};
  const int stop = LOAD(sender_ptr, node + 1);
  for (int place = LOAD(sender_ptr, node); place < stop; ++place) {{
    const INDEX row = INDEX(LOAD(sender_perm, place)) * {dim_x} + column;
    {read(terms, "messages", "row", stream=True)}
    {" ".join(f"{a} += {b};" for a, b in zip(totals, terms, strict=True))}
  }}
  {write(totals, "x_bar", f"INDEX(node) * {dim_x} + column", word)}
}}
"""
    names = ["messages", "sender_perm", "sender_ptr"]
    return GeneratedKernel(
        "convolution_messages", names, ["x_bar"], body, "VECTOR_WORDS\n"
    ), columns
