"""Values of the convolution family on GPUs.

Where the adjoint to x is wanted together with others, one pass over the edges writes its messages
(n_edges, dim_x) beside them, and a second kernel sums them at their senders: that reads the edge
weights once less, and never gathers the wide rows of g. Alone, it is summed without messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import mlx.core as mx
import numpy as np

from ..convolution_spec import ConvolutionSpec
from ..edges import EdgeIndex
from .convolution_kernels import (
    NodeKernel,
    Tuning,
    edge_kernel,
    forward_kernel,
    message_sum_kernel,
    sender_kernel,
)
from .convolution_plan import NEGLIGIBLE, layout, x_blocks_overlap
from .convolution_text import Sizes
from .dialect import SIMD_WIDTH, WORD_OF_TYPE
from .generated import GeneratedKernel, grid_refusal
from .refusals import refusal

#: Most coupling coefficients that are not zero: kernels of more take too long to compile.
MOST_TERMS = 20000
#: Threads of a block that sums messages.
SUM_THREADS = 256

#: By measurement on an H200 (docs/kernels.md), for each kind of kernel.
FORWARD = Tuning(width=4)
SENDER = Tuning(width=2)
EDGE = Tuning(width=4)
EDGE_WITH_MESSAGES = Tuning(width=2)


@dataclass(frozen=True)
class _Facts:
    """What the checks need to know of a specification, found out once."""

    terms: int
    overlap: bool
    kinds: int
    joins_x: bool

    @classmethod
    def of(cls, spec: ConvolutionSpec) -> _Facts:
        if "gpu_facts" not in spec.caches:
            plans = [layout(spec, t.width, t.components) for t in (FORWARD, EDGE_WITH_MESSAGES)]
            messages = plans[1]
            blocks = {(kind.x_offset, kind.channel) for kind in messages.kinds}
            spec.caches["gpu_facts"] = cls(
                terms=sum(int((np.abs(p.coefficients) > NEGLIGIBLE).sum()) for p in spec.paths),
                overlap=x_blocks_overlap(spec),
                kinds=max(len(plan.kinds) for plan in plans),
                joins_x=not messages.gaps and len(blocks) == len(messages.kinds),
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
    warps = FORWARD.warps
    return grid_refusal(-(-n_nodes // warps) * facts.kinds, SIMD_WIDTH * warps) or grid_refusal(
        -(-n_nodes * spec.dim_x // SUM_THREADS), SUM_THREADS
    )


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
    run = _Run(spec, dtype, {**arrays, "g": arrays.get("out"), **edges.arrays()}, edges)
    if targets == ("out",):
        return run.forward()
    found: dict[str, mx.array] = {}
    at_edges = "".join(t for t in ("x", "y", "w") if t in targets)
    if "x" in targets and (at_edges == "x" or not _Facts.of(spec).joins_x):
        found["x"] = run.at_senders()
        at_edges = at_edges.replace("x", "")
    if at_edges:
        found |= run.at_edges(at_edges)
    return [found[target] for target in targets]


class _Run:
    """The kernels of a specification with the arrays that they are called with."""

    def __init__(self, spec: ConvolutionSpec, dtype: mx.Dtype, arrays: dict, edges: EdgeIndex):
        self.spec, self.dtype, self.arrays, self.edges = spec, dtype, arrays, edges
        self.sizes = Sizes(
            spec.dim_x, spec.dim_y, spec.n_weights, spec.dim_out, WORD_OF_TYPE[dtype]
        )

    def _kept(self, key: str, make):
        kernels = self.spec.caches.setdefault("gpu", {})
        if (key, self.dtype) not in kernels:
            kernels[key, self.dtype] = make()
        return kernels[key, self.dtype]

    def _call(self, node_kernel: NodeKernel, shapes: list, dtypes: list) -> list[mx.array]:
        return node_kernel.kernel(
            [self.arrays[name] for name in node_kernel.kernel.inputs],
            shapes=shapes,
            dtypes=dtypes,
            blocks=node_kernel.blocks(self.edges.n_nodes),
            threads=SIMD_WIDTH * node_kernel.warps,
        )

    def forward(self) -> list[mx.array]:
        """The convolution itself."""
        kernel = self._kept("out", lambda: forward_kernel(self.spec, self.sizes, FORWARD))
        return self._call(kernel, [(self.edges.n_nodes, self.spec.dim_out)], [self.dtype])

    def at_senders(self) -> mx.array:
        """The adjoint to x without messages."""
        kernel = self._kept("x", lambda: sender_kernel(self.spec, self.sizes, SENDER))
        return self._call(kernel, [(self.edges.n_nodes, self.spec.dim_x)], [self.dtype])[0]

    def at_edges(self, targets: str) -> dict[str, mx.array]:
        """Any adjoints in one pass over the edges."""
        tuning = EDGE_WITH_MESSAGES if "x" in targets else EDGE
        kernel = self._kept(
            f"edges {targets}", lambda: edge_kernel(self.spec, self.sizes, targets, tuning)
        )
        n_kinds, n_edges = len(kernel.plan.kinds), self.edges.n_edges
        outputs = {
            "x": ((n_edges, self.spec.dim_x), mx.float32),
            "y": ((n_kinds, n_edges, self.spec.dim_y), mx.float32),
            "w": ((n_edges, self.spec.n_weights), self.dtype),
        }
        shapes, dtypes = zip(*(outputs[t] for t in targets), strict=True)
        found = dict(zip(targets, self._call(kernel, [*shapes], [*dtypes]), strict=True))
        if "y" in found:
            parts = found["y"]
            total = parts.reshape(parts.shape[1:]) if n_kinds == 1 else parts.sum(axis=0)
            found["y"] = total.astype(self.dtype)
        if "x" in found:
            found["x"] = self._summed(found["x"])
        return found

    def _summed(self, messages: mx.array) -> mx.array:
        kernel: GeneratedKernel
        kernel, threads_of_node = self._kept(
            "messages", lambda: message_sum_kernel(self.spec.dim_x, self.sizes.word)
        )
        n_nodes = self.edges.n_nodes
        return kernel(
            [messages, self.edges.sender_perm, self.edges.sender_ptr],
            shapes=[(n_nodes, self.spec.dim_x)],
            dtypes=[self.dtype],
            blocks=-(-n_nodes * threads_of_node // SUM_THREADS),
            threads=SUM_THREADS,
        )[0]
