"""Values of the convolution family in plain MLX: any dtype, any device.

For each block of x the paths that read it share one matrix per edge, M = y @ coupling of shape
(K, d1), so a message is the batched product M @ x[sender] times the weights of its rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import mlx.core as mx
import numpy as np

from .constants import Constant
from .convolution_spec import ConvolutionSpec, PathGroup
from .edges import EdgeIndex


class Columns:
    """A fixed choice of columns, taken as a slice where it is one."""

    def __init__(self, columns: np.ndarray) -> None:
        flat = columns.ravel()
        self.shape = columns.shape
        self.start = int(flat[0]) if len(flat) else 0
        self.is_slice = bool(np.array_equal(flat, self.start + np.arange(len(flat))))
        self.stop = self.start + len(flat)
        self.index = Constant(flat.astype(np.int32))

    def of(self, x: mx.array) -> mx.array:
        """(n, width) -> (n, *shape)."""
        if self.is_slice:
            part = x if self.stop - self.start == x.shape[1] else x[:, self.start : self.stop]
        else:
            part = mx.take(x, self.index(mx.int32), axis=1)
        return part.reshape(x.shape[0], *self.shape)


@dataclass(frozen=True)
class GroupPlan:
    """A path group with its column choices and constants ready for use."""

    x: Columns
    w: Columns
    out: Columns
    coupling: Constant
    coupling_transposed: Constant
    row_path: Constant
    row_sum: Constant
    n_rows: int
    d1: int

    @classmethod
    def make(cls, group: PathGroup) -> GroupPlan:
        """Plan of a group."""
        return cls(
            x=Columns(group.x_columns),
            w=Columns(group.w_columns),
            out=Columns(group.out_columns),
            coupling=Constant(group.coupling),
            coupling_transposed=Constant(group.coupling.T),
            row_path=Constant(group.path_of_row.astype(np.int32)),
            row_sum=Constant(group.sum_rows),
            n_rows=group.n_rows,
            d1=group.d1,
        )

    def matrix(self, y: mx.array) -> mx.array:
        """(n_edges, dim_y) -> (n_edges, K, d1)."""
        return (y @ self.coupling(y.dtype)).reshape(y.shape[0], self.n_rows, self.d1)

    def row_weights(self, w: mx.array) -> mx.array:
        """(n_edges, n_weights) -> (n_edges, K, mul): the weight of each row."""
        return mx.take(self.w.of(w), self.row_path(mx.int32), axis=1)


class Plan:
    """Reference evaluation of the four maps of one specification."""

    def __init__(self, spec: ConvolutionSpec) -> None:
        self.spec = spec
        groups = spec.groups()
        self.groups = [GroupPlan.make(g) for g in groups]
        self.scatter_out = self._inverse([g.out_columns for g in groups], spec.dim_out)
        self.scatter_x = self._inverse([g.x_columns for g in groups], spec.dim_x)
        self.scatter_w = self._inverse([g.w_columns for g in groups], spec.n_weights)

    @staticmethod
    def _inverse(columns: list[np.ndarray], size: int) -> Constant:
        """Where each column lies in the concatenation of the groups; ``size`` if nowhere."""
        flat = np.concatenate([c.ravel() for c in columns]) if columns else np.zeros(0, int)
        where = np.full(size, len(flat), dtype=np.int32)
        where[flat] = np.arange(len(flat))
        return Constant(where)

    @staticmethod
    def _assemble(parts: list[mx.array], where: Constant) -> mx.array:
        """Concatenate (n, ...) parts and put their columns into place; missing ones are zero."""
        n = parts[0].shape[0]
        flat = [p.reshape(n, -1) for p in parts]
        width = sum(p.shape[1] for p in flat)
        order = where.values
        if np.any(order == width):
            flat.append(mx.zeros((n, 1), dtype=flat[0].dtype))
        joined = flat[0] if len(flat) == 1 else mx.concatenate(flat, axis=1)
        if np.array_equal(order, np.arange(joined.shape[1])):
            return joined
        return mx.take(joined, where(mx.int32), axis=1)

    @staticmethod
    def _sum(parts: list[mx.array]) -> mx.array:
        total = parts[0]
        for p in parts[1:]:
            total = total + p
        return total

    @staticmethod
    def _at_nodes(messages: mx.array, index: mx.array, n_nodes: int) -> mx.array:
        zeros = mx.zeros((n_nodes, messages.shape[1]), dtype=messages.dtype)
        return zeros.at[index].add(messages)

    def conv(self, x: mx.array, y: mx.array, w: mx.array, edges: EdgeIndex) -> mx.array:
        """out from x, y, w."""
        sent = mx.take(x, edges.senders, axis=0)
        parts = [
            ((g.matrix(y) @ g.x.of(sent)) * g.row_weights(w)).reshape(y.shape[0], -1)
            for g in self.groups
        ]
        joined = parts[0] if len(parts) == 1 else mx.concatenate(parts, axis=1)
        summed = self._at_nodes(joined, edges.receivers, x.shape[0])
        return self._assemble([summed], self.scatter_out)

    def conv_x(self, y: mx.array, w: mx.array, g: mx.array, edges: EdgeIndex) -> mx.array:
        """Adjoint to x."""
        got = mx.take(g, edges.receivers, axis=0)
        parts = []
        for group in self.groups:
            rows = group.out.of(got) * group.row_weights(w)
            parts.append((group.matrix(y).swapaxes(1, 2) @ rows).reshape(y.shape[0], -1))
        joined = parts[0] if len(parts) == 1 else mx.concatenate(parts, axis=1)
        summed = self._at_nodes(joined, edges.senders, g.shape[0])
        return self._assemble([summed], self.scatter_x)

    def conv_y(self, x: mx.array, w: mx.array, g: mx.array, edges: EdgeIndex) -> mx.array:
        """Adjoint to y."""
        sent = mx.take(x, edges.senders, axis=0)
        got = mx.take(g, edges.receivers, axis=0)
        parts = []
        for group in self.groups:
            rows = group.out.of(got) * group.row_weights(w)
            matrix = rows @ group.x.of(sent).swapaxes(1, 2)
            flat = matrix.reshape(w.shape[0], -1)
            parts.append(flat @ group.coupling_transposed(flat.dtype))
        return self._sum(parts)

    def conv_w(self, x: mx.array, y: mx.array, g: mx.array, edges: EdgeIndex) -> mx.array:
        """Adjoint to w."""
        sent = mx.take(x, edges.senders, axis=0)
        got = mx.take(g, edges.receivers, axis=0)
        parts = []
        for group in self.groups:
            rows = (group.matrix(y) @ group.x.of(sent)) * group.out.of(got)
            parts.append(mx.matmul(group.row_sum(rows.dtype), rows))
        return self._assemble(parts, self.scatter_w)
