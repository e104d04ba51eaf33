"""Static description of a fused convolution: which blocks meet in which path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class ConvolutionPath:
    """One path of a uvu product: block of x times block of y into an own block of the output.

    With channel c < mul, components i < d1 of x, j < d2 of y and k < d3 of the output,

        out[k, c] += sum_ij C[i, j, k] w[c] x[i, c] y[j].

    Element (i, c) of x lies in column ``x_offset + i * x_stride + c`` of the flat,
    component-major features; likewise for the output.

    Args:
        x_offset, x_stride, d1: where the block of x lies.
        y_offset, d2: where the block of y lies.
        w_offset: first column of the path's weights.
        out_offset, out_stride, d3: where the block of the output lies.
        mul: number of channels.
        coefficients: (d1, d2, d3) coupling coefficients, all normalisation included.
    """

    x_offset: int
    x_stride: int
    d1: int
    y_offset: int
    d2: int
    w_offset: int
    out_offset: int
    out_stride: int
    d3: int
    mul: int
    coefficients: np.ndarray

    def __post_init__(self) -> None:
        assert self.coefficients.shape == (self.d1, self.d2, self.d3)

    def x_columns(self) -> np.ndarray:
        """(d1, mul) columns of x."""
        return self.x_offset + self.x_stride * np.arange(self.d1)[:, None] + np.arange(self.mul)

    def out_columns(self) -> np.ndarray:
        """(d3, mul) columns of the output."""
        return self.out_offset + self.out_stride * np.arange(self.d3)[:, None] + np.arange(self.mul)


@dataclass(frozen=True, eq=False)
class ConvolutionSpec:
    """All paths of a convolution and the sizes of its arrays.

    Two specifications are equal only if they are the same object: it is a key of caches.

    Args:
        dim_x: columns of the node features.
        dim_y: columns of the edge harmonics.
        n_weights: columns of the edge weights.
        dim_out: columns of the result.
        paths: the paths; every output column belongs to exactly one of them.

    Raises:
        ValueError: a path reaches outside its array, or an output column or a weight is
            written by two paths or by none.
    """

    dim_x: int
    dim_y: int
    n_weights: int
    dim_out: int
    paths: tuple[ConvolutionPath, ...]
    caches: dict = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        out = [p.out_columns().ravel() for p in self.paths]
        weights = [p.w_offset + np.arange(p.mul) for p in self.paths]
        for name, columns, size in (
            ("output", out, self.dim_out),
            ("weight", weights, self.n_weights),
        ):
            used = np.sort(np.concatenate(columns)) if columns else np.zeros(0, int)
            if not np.array_equal(used, np.arange(size)):
                raise ValueError(
                    f"the paths must cover each of the {size} {name} columns exactly once"
                )
        for p in self.paths:
            if p.x_columns().max(initial=-1) >= self.dim_x or p.y_offset + p.d2 > self.dim_y:
                raise ValueError(f"path {p} reaches outside x ({self.dim_x}) or y ({self.dim_y})")

    def __getstate__(self) -> dict:
        """Copies and pickles make their own caches: functions and plans cannot be copied."""
        return self.__dict__ | {"caches": {}}

    def groups(self) -> list[PathGroup]:
        """Paths that share a block of x, in order of appearance."""
        found: dict[tuple[int, int, int, int], list[ConvolutionPath]] = {}
        for p in self.paths:
            found.setdefault((p.x_offset, p.x_stride, p.d1, p.mul), []).append(p)
        return [PathGroup(self, paths) for paths in found.values()]


class PathGroup:
    """Paths that share one block of x, as the matrices that the reference backend needs.

    Attributes:
        x_columns: (d1, mul) columns of the shared block.
        coupling: (dim_y, K * d1) coefficients: y @ coupling is the (K, d1) matrix of an edge,
            K = sum of d3 over the paths.
        w_columns: (n_paths, mul) columns of the weights.
        path_of_row: (K,) which path of the group a row belongs to.
        sum_rows: (n_paths, K) zeros and ones: adds up the rows of each path.
        out_columns: (K, mul) columns of the output.
    """

    def __init__(self, spec: ConvolutionSpec, paths: Sequence[ConvolutionPath]) -> None:
        first = paths[0]
        self.mul, self.d1 = first.mul, first.d1
        self.n_rows = sum(p.d3 for p in paths)
        self.x_columns = first.x_columns()
        coupling = np.zeros((spec.dim_y, self.n_rows, self.d1))
        row = 0
        for p in paths:
            coupling[p.y_offset : p.y_offset + p.d2, row : row + p.d3] = p.coefficients.transpose(
                1, 2, 0
            )
            row += p.d3
        self.coupling = coupling.reshape(spec.dim_y, -1)
        self.w_columns = np.array([p.w_offset + np.arange(p.mul) for p in paths])
        self.path_of_row = np.repeat(np.arange(len(paths)), [p.d3 for p in paths])
        self.sum_rows = (self.path_of_row == np.arange(len(paths))[:, None]).astype(float)
        self.out_columns = np.concatenate([p.out_columns() for p in paths])
