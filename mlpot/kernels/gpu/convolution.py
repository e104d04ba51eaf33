"""Values of the convolution family on GPUs.

Where the adjoint to x is wanted together with others, each sender walks its edges: x and the sum
that becomes its adjoint stay in registers, the rows of g are gathered. Where these leave the cache,
tiles of receivers are done one after the other. Where that leaves a sender too few edges a tile,
receivers write messages to x (n_edges, dim_x) beside the others, and a second kernel sums them.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

import mlx.core as mx
import numpy as np

from ..convolution_spec import ConvolutionSpec
from ..edges import EdgeIndex
from .convolution_adjoints import edge_sums
from .convolution_kernels import (
    NodeKernel,
    Tuning,
    edge_kernel,
    forward_kernel,
    message_sum_kernel,
    sender_kernel,
    widest,
)
from .convolution_plan import NEGLIGIBLE, layout, x_blocks_overlap
from .convolution_text import Sizes
from .dialect import SIMD_WIDTH, WORD_OF_TYPE
from .generated import GeneratedKernel, grid_refusal
from .refusals import refusal

#: Most coupling coefficients that are not zero: kernels of more take too long to compile.
MOST_TERMS = 20000
#: Up to so many weights two adjoints are computed with the third by its kernel: compiling another
#: one takes seconds, writing these weights some ten microseconds.
FEW_WEIGHTS = 2**23
#: Threads of a block that sums messages.
SUM_THREADS = 256

#: By measurement on an H200 (docs/gpu-kernels.md), for each kind of kernel.
FORWARD = Tuning(width=4)
FORWARD_FROM_TABLE = Tuning(width=1)
SENDER = Tuning(width=2)
EDGE = Tuning(width=4)
EDGE_WITH_MESSAGES = Tuning(width=2)
#: Several adjoints at the senders, with weights that are given and with those from a table.
TOGETHER = Tuning(width=4, lanes=32, ahead=True)
TOGETHER_FROM_TABLE = Tuning(width=2, warps=2)
#: Most bytes of g that are gathered at the same time, so that they stay in the cache: on an H200
#: 14 MB are gathered faster than messages are written and read, 72 MB more slowly.
GATHERED_BYTES = 25_000_000
#: Fewest edges from a sender into a tile of receivers, in the mean, for which tiles are used where
#: more bytes are gathered; None: never. By the model of costs four would do; no GPU has timed it.
EDGES_IN_TILE: int | None = None


@dataclass(frozen=True)
class _Facts:
    """What the checks need to know of a specification, found out once."""

    terms: int
    overlap: bool
    kinds: int
    joins_x: bool
    gathered: int

    @classmethod
    def of(cls, spec: ConvolutionSpec) -> _Facts:
        if "gpu_facts" not in spec.caches:
            tunings = (EDGE_WITH_MESSAGES, FORWARD, FORWARD_FROM_TABLE, SENDER, EDGE)
            plans = [layout(spec, t.width, t.components) for t in tunings]
            tunings = (TOGETHER, TOGETHER_FROM_TABLE)
            together = [layout(spec, t.width, 0, t.lanes) for t in tunings]
            messages = plans[0]
            blocks = {(kind.x_offset, kind.channel) for kind in messages.kinds}
            spec.caches["gpu_facts"] = cls(
                terms=sum(int((np.abs(p.coefficients) > NEGLIGIBLE).sum()) for p in spec.paths),
                overlap=x_blocks_overlap(spec),
                kinds=max(len(plan.kinds) for plan in (*plans, *together)),
                joins_x=not messages.gaps and len(blocks) == len(messages.kinds),
                gathered=max((shape.gathered for shape in together[0].shapes), default=0),
            )
        return spec.caches["gpu_facts"]


def convolution_refusal(spec: ConvolutionSpec, n_nodes: int, *arrays: mx.array) -> str | None:
    """Why the GPU kernels cannot compute a convolution of these arrays; None if they can."""
    refused = refusal(*arrays)
    if refused:
        return refused
    facts = _Facts.of(spec)
    if facts.terms > MOST_TERMS:
        return f"{facts.terms} coupling coefficients (the most is {MOST_TERMS})"
    if facts.overlap:
        return "paths read overlapping blocks of x"
    return _nodes_refusal(n_nodes, facts.kinds) or grid_refusal(
        -(-n_nodes * spec.dim_x // SUM_THREADS), SUM_THREADS
    )


def _nodes_refusal(n_nodes: int, n_kinds: int) -> str | None:
    warps = FORWARD.warps
    return grid_refusal(-(-n_nodes // warps) * n_kinds, SIMD_WIDTH * warps)


def convolution(
    spec: ConvolutionSpec,
    targets: tuple[str, ...],
    arrays: Mapping[str, mx.array],
    edges: EdgeIndex,
) -> list[mx.array]:
    """Gradients of T = <out, convolution(x, y, w)> to each target.

    Args:
        spec: the paths.
        targets: of "x", "y", "w" and "out"; "out" alone.
        arrays: x (n_nodes, dim_x), y (n_edges, dim_y), w (n_edges, n_weights) and
            out (n_nodes, dim_out), those that the targets need, of one type: float32, or float16
            or bfloat16, which are summed in float32.
        edges: edge list sorted by receiver.

    Returns:
        One array for each target, of the type of the arrays.
    """
    dtype = next(iter(arrays.values())).dtype
    run = Run(spec, dtype, {**arrays, "g": arrays.get("out"), **edges.arrays()}, edges)
    if targets == ("out",):
        return run.forward()
    found = run.adjoints("".join(t for t in ("x", "y", "w") if t in targets))
    return [found[target] for target in targets]


class Run:
    """The kernels of a specification with the arrays that they are called with.

    Args:
        spec: the paths.
        dtype: of the arrays.
        arrays: inputs of the kernels by name.
        edges: edge list sorted by receiver.
        coefficients: columns of h, where the weights come from a table; 0: they are given.
    """

    def __init__(
        self,
        spec: ConvolutionSpec,
        dtype: mx.Dtype,
        arrays: dict,
        edges: EdgeIndex,
        coefficients: int = 0,
    ) -> None:
        self.spec, self.dtype, self.arrays, self.edges = spec, dtype, arrays, edges
        word = WORD_OF_TYPE[dtype]
        dims = (spec.dim_x, spec.dim_y, spec.n_weights, spec.dim_out)
        self.sizes = Sizes(*dims, word, coefficients)

    def kept(self, key: str, make):
        """What ``make`` gives, once a specification, type and number of coefficients."""
        kernels = self.spec.caches.setdefault("gpu", {})
        full = (key, self.dtype, self.sizes.coefficients)
        if full not in kernels:
            kernels[full] = make()
        return kernels[full]

    def _call(
        self, node_kernel: NodeKernel, shapes: list, dtypes: list, n_tiles: int = 1
    ) -> list[mx.array]:
        return node_kernel.kernel(
            [self.arrays[name] for name in node_kernel.kernel.inputs],
            shapes=shapes,
            dtypes=dtypes,
            blocks=n_tiles * node_kernel.blocks(self.edges.n_nodes),
            threads=SIMD_WIDTH * node_kernel.warps,
        )

    def forward(self) -> list[mx.array]:
        """The convolution itself."""
        tuning = FORWARD_FROM_TABLE if self.sizes.coefficients else FORWARD
        kernel = self.kept("out", lambda: forward_kernel(self.spec, self.sizes, tuning))
        return self._call(kernel, [(self.edges.n_nodes, self.spec.dim_out)], [self.dtype])

    def adjoints(self, targets: str) -> dict[str, mx.array]:
        """Those asked for, and perhaps others, of x, y, w and h, in as few passes as it goes."""
        joins_x = _Facts.of(self.spec).joins_x
        tile = self.tile_nodes()
        few = self.edges.n_edges * self.spec.n_weights <= FEW_WEIGHTS
        from_table = self.sizes.coefficients > 0
        weights = "w" if from_table and "w" in targets else ""
        if len(targets) - len(weights) == 2 and few and (joins_x or tile is not None):
            targets = ("xyh" if from_table else "xyw") + weights
        if "x" not in targets:
            return self.at_edges(targets)
        if targets == "x":
            return self.at_senders("x", SENDER, tile or 0)
        # With the rows of a table to read, messages are 5 % faster unless weights are written too.
        if joins_x and (tile is None or (from_table and not weights)):
            return self.at_edges(targets)
        if tile is None:
            return self.at_senders("x", SENDER) | self.at_edges(targets.replace("x", ""))
        return self.at_senders(targets, TOGETHER_FROM_TABLE if from_table else TOGETHER, tile)

    def tile_nodes(self) -> int | None:
        """Receivers whose rows of g senders gather at a time.

        Returns:
            0: of all; None: tiles would leave a sender too few edges.
        """
        n_nodes, n_edges = self.edges.n_nodes, self.edges.n_edges
        row = self.gathered_row()
        if n_nodes * row <= GATHERED_BYTES:
            return 0
        nodes = max(1, GATHERED_BYTES // row)
        n_tiles = -(-n_nodes // nodes)
        if EDGES_IN_TILE is None or n_edges < EDGES_IN_TILE * n_tiles * n_nodes:
            return None
        return None if _nodes_refusal(n_tiles * n_nodes, _Facts.of(self.spec).kinds) else nodes

    def gathered_row(self) -> int:
        """Most bytes of a row of g that a sender gathers at a time."""
        return _Facts.of(self.spec).gathered * self.dtype.size

    def at_senders(self, targets: str, tuning: Tuning, tile_nodes: int = 0) -> dict[str, mx.array]:
        """Adjoints without messages: to x, and others with it."""
        kernel = self.kept(
            f"senders {targets} {tuning} {tile_nodes}",
            lambda: sender_kernel(self.spec, self.sizes, targets, tuning, tile_nodes),
        )
        return self._gradients(kernel, targets, -(-self.edges.n_nodes // (tile_nodes or 2**31)))

    def at_edges(self, targets: str) -> dict[str, mx.array]:
        """Adjoints at the edges of receivers; that to x from messages."""
        if targets == "w" and self.sizes.coefficients:
            return Run(self.spec, self.dtype, self.arrays, self.edges).at_edges("w")
        tuning = EDGE_WITH_MESSAGES if "x" in targets else EDGE
        kernel = self.kept(
            f"edges {targets}", lambda: edge_kernel(self.spec, self.sizes, targets, tuning)
        )
        return self._gradients(kernel, targets)

    def _gradients(self, kernel: NodeKernel, targets: str, n_tiles: int = 1) -> dict[str, mx.array]:
        n_kinds, n_edges = len(kernel.plan.kinds), self.edges.n_edges
        of_nodes = (self.edges.n_nodes, self.spec.dim_x)
        outputs = {
            "x_bar": ((n_tiles, *of_nodes), mx.float32) if n_tiles > 1 else (of_nodes, self.dtype),
            "messages": ((n_edges, self.spec.dim_x), mx.float32),
            "sums": ((n_kinds, n_edges, edge_sums(self.sizes, targets)), mx.float32),
            "w_bar": ((n_edges, self.spec.n_weights), self.dtype),
        }
        names = kernel.kernel.outputs
        shapes, dtypes = zip(*(outputs[name] for name in names), strict=True)
        values = dict(zip(names, self._call(kernel, [*shapes], [*dtypes], n_tiles), strict=True))
        found: dict[str, mx.array] = {}
        if "x_bar" in values:
            parts = values["x_bar"]
            found["x"] = parts if n_tiles == 1 else parts.sum(axis=0).astype(self.dtype)
        if "messages" in values:
            found["x"] = self._summed(values["messages"])
        if "sums" in values:
            found |= self._columns(values["sums"], targets)
        if "w_bar" in values:
            found["w"] = values["w_bar"]
        return found

    def _columns(self, parts: mx.array, targets: str) -> dict[str, mx.array]:
        total = parts.reshape(parts.shape[1:]) if parts.shape[0] == 1 else parts.sum(axis=0)
        total = total.astype(self.dtype)
        if "y" in targets and "h" in targets:
            return {"y": total[:, : self.spec.dim_y], "h": total[:, self.spec.dim_y :]}
        return {"y" if "y" in targets else "h": total}

    def _summed(self, messages: mx.array) -> mx.array:
        width = widest(self.spec.dim_x)
        kernel = _message_sum(width, self.sizes.word)
        n_nodes = self.edges.n_nodes
        return kernel(
            [messages, self.edges.sender_perm, self.edges.sender_ptr],
            shapes=[(n_nodes, self.spec.dim_x)],
            dtypes=[self.dtype],
            blocks=-(-n_nodes * (self.spec.dim_x // width) // SUM_THREADS),
            threads=SUM_THREADS,
        )[0]


@functools.cache
def _message_sum(width: int, word: str) -> GeneratedKernel:
    return message_sum_kernel(width, word)
