"""How the paths of a convolution are shared out among the warps of a GPU.

Paths that read the same block of x form a part, cut where the output blocks would need too many
registers. A warp computes one part for a vector of channels a lane: ``lanes`` lanes side by side
hold the channels of one edge, and 32 / lanes edges ("slots") are treated at a time.

Parts that differ only in where their blocks lie (as even and odd parity do) share one text, their
"shape"; the places come from a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ..convolution_spec import ConvolutionPath, ConvolutionSpec
from .dialect import SIMD_WIDTH

#: Coupling coefficients below this are rounding of zeros.
NEGLIGIBLE = 1e-12


@dataclass(frozen=True)
class ShapePath:
    """A path within a shape: what the text contains."""

    y_offset: int
    d2: int
    d3: int
    w_offset: int
    out_stride: int
    coefficients: bytes

    def terms(self, d1: int) -> dict[tuple[int, int], list[tuple[int, float]]]:
        """(i, k) -> [(column of y, coefficient), ...]: the matrix M[i, k] = sum c y of an edge."""
        c = np.frombuffer(self.coefficients).reshape(d1, self.d2, self.d3)
        found: dict[tuple[int, int], list[tuple[int, float]]] = {}
        for i, j, k in np.argwhere(np.abs(c) > NEGLIGIBLE):
            term = (self.y_offset + int(j), float(c[i, j, k]))
            found.setdefault((int(i), int(k)), []).append(term)
        return found


@dataclass(frozen=True)
class Shape:
    """Everything of a part that its text depends on."""

    d1: int
    x_stride: int
    mul: int
    width: int
    paths: tuple[ShapePath, ...]

    @property
    def lanes(self) -> int:
        """Lanes that hold the channels of one edge: a power of two."""
        needed = -(-self.mul // self.width)
        return min(SIMD_WIDTH, 1 << (needed - 1).bit_length())

    @property
    def slots(self) -> int:
        """Edges that a warp treats at a time."""
        return SIMD_WIDTH // self.lanes

    @property
    def channels(self) -> int:
        """Channels that a warp treats."""
        return self.lanes * self.width

    @property
    def blocks(self) -> int:
        """Warps for all channels."""
        return -(-self.mul // self.channels)

    @property
    def masked(self) -> bool:
        """Whether some lanes have no channel."""
        return self.blocks * self.channels != self.mul

    @property
    def gathered(self) -> int:
        """Elements of a row of g that a warp reads."""
        return min(self.channels, self.mul) * sum(p.d3 for p in self.paths)

    @property
    def y_columns(self) -> list[int]:
        """Columns of y that the paths read."""
        columns = {p.y_offset + j for p in self.paths for j in range(p.d2)}
        return sorted(columns)


@dataclass(frozen=True)
class Kind:
    """What one warp does for a node: a part, a block of channels."""

    shape: int
    channel: int
    x_offset: int
    w_offset: int
    out_offsets: tuple[int, ...]


@dataclass(frozen=True)
class Layout:
    """Shapes and kinds of a map.

    Args:
        shapes: the texts.
        kinds: the work of each warp at a node.
    """

    shapes: tuple[Shape, ...]
    kinds: tuple[Kind, ...]
    gaps: tuple[tuple[int, int], ...] = field(default=())


def vector_width(spec: ConvolutionSpec, paths: Sequence[ConvolutionPath], widest: int) -> int:
    """Channels a lane can load at once: a divisor of all places and sizes, at most ``widest``."""
    numbers = [spec.dim_x, spec.n_weights, spec.dim_out]
    for p in paths:
        numbers += [p.x_offset, p.x_stride, p.w_offset, p.out_offset, p.out_stride, p.mul]
    width = widest
    while any(n % width for n in numbers):
        width //= 2
    return width


def blocks_of_x(spec: ConvolutionSpec) -> list[list[ConvolutionPath]]:
    """Paths by the block of x that they read, in order of appearance."""
    found: dict[tuple[int, int, int, int], list[ConvolutionPath]] = {}
    for p in spec.paths:
        found.setdefault((p.x_offset, p.x_stride, p.d1, p.mul), []).append(p)
    return list(found.values())


def layout(spec: ConvolutionSpec, widest: int, components: int, lanes: int = 1) -> Layout:
    """Share out the paths.

    Args:
        spec: the convolution.
        widest: most channels a lane.
        components: most components of the output a lane holds, times channels; 0: no limit.
        lanes: fewest lanes of an edge, where that leaves each two channels or more.

    Returns:
        Shapes and kinds.
    """
    shapes: dict[Shape, int] = {}
    kinds: list[Kind] = []
    for paths in blocks_of_x(spec):
        width = vector_width(spec, paths, widest)
        while width > 2 and paths[0].mul < lanes * width:
            width //= 2
        for part in _cut(paths, components // width if components else 0):
            shape = _shape(part, width)
            number = shapes.setdefault(shape, len(shapes))
            for block in range(shape.blocks):
                kinds.append(
                    Kind(
                        shape=number,
                        channel=block * shape.channels,
                        x_offset=part[0].x_offset,
                        w_offset=part[0].w_offset,
                        out_offsets=tuple(p.out_offset for p in part),
                    )
                )
    # The longest work first: what comes last fills the gaps at the end.
    work = [len(s.paths) * s.d1 + sum(p.d3 * s.d1 for p in s.paths) for s in shapes]
    kinds.sort(key=lambda kind: -work[kind.shape])
    return Layout(tuple(shapes), tuple(kinds), uncovered_x(spec))


def uncovered_x(spec: ConvolutionSpec) -> tuple[tuple[int, int], ...]:
    """(start, stop) of the columns of x that no path reads."""
    used = np.zeros(spec.dim_x + 2, bool)
    for p in spec.paths:
        used[1 + p.x_columns()] = True
    used[[0, -1]] = True
    edges = np.flatnonzero(np.diff(used.astype(int)))
    return tuple((int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True))


def x_blocks_overlap(spec: ConvolutionSpec) -> bool:
    """Whether a column of x belongs to two different blocks."""
    columns = [paths[0].x_columns().ravel() for paths in blocks_of_x(spec)]
    used = np.concatenate(columns) if columns else np.zeros(0, int)
    return len(used) != len(np.unique(used))


def _cut(paths: list[ConvolutionPath], limit: int) -> list[list[ConvolutionPath]]:
    total = sum(p.d3 for p in paths)
    if not limit or total <= limit:
        return [paths]
    n_parts = -(-total // limit)
    parts: list[list[ConvolutionPath]] = [[]]
    for p in paths:
        if parts[-1] and sum(q.d3 for q in parts[-1]) + p.d3 > max(limit, -(-total // n_parts)):
            parts.append([])
        parts[-1].append(p)
    return parts


def _shape(paths: Sequence[ConvolutionPath], width: int) -> Shape:
    first = paths[0]
    return Shape(
        d1=first.d1,
        x_stride=first.x_stride,
        mul=first.mul,
        width=width,
        paths=tuple(
            ShapePath(
                y_offset=p.y_offset,
                d2=p.d2,
                d3=p.d3,
                w_offset=p.w_offset - first.w_offset,
                out_stride=p.out_stride,
                coefficients=np.ascontiguousarray(p.coefficients, np.float64).tobytes(),
            )
            for p in paths
        ),
    )
