"""Messages of the point models: weighted uvu products summed at their receivers."""

from __future__ import annotations

import math

import mlx.core as mx
import numpy as np
from jaxtyping import Float

from mlpot import kernels, o3

from . import short_features
from .radial_edges import TableWeights


class MessageSum:
    """Sum over incoming edges of uvu products of sender features and edge attributes.

    For each block of the input, each edge attribute and each allowed output irrep that is wanted
    there is one path with an own output block of the input's multiplicity; the blocks are sorted
    by irrep. Weights are in e3nn's order: path by path, (u, v) within a path, u a channel of the
    input, v one of the edge attribute, over which the product sums.

    Features are component-major; edge attributes are in e3nn's layout.

    Args:
        irreps_in: of the node features.
        irreps_edge_attr: of the edge attributes.
        wanted: irreps of use to what follows.
        scalars_too: whether 0e is wanted in any case.
        scale: factor on the sum.

    Attributes:
        feature_dtype: name of the number type of features and weights in the convolution; float16
            and bfloat16 make them half as large, see `mlpot.models.short_features`.
    """

    def __init__(
        self,
        irreps_in: o3.Irreps,
        irreps_edge_attr: o3.Irreps,
        wanted: o3.Irreps,
        scalars_too: bool = False,
        scale: float = 1.0,
    ) -> None:
        kept = {ir for _, ir in wanted} | ({o3.Irrep(0, 1)} if scalars_too else set())
        triples = [
            (i, j, ir)
            for i, (mul, ir_in) in enumerate(irreps_in)
            for j, (copies, ir_edge) in enumerate(irreps_edge_attr)
            for ir in ir_in * ir_edge
            if ir in kept and mul * copies > 0
        ]
        self.irreps_out, place, _ = o3.Irreps(
            [(irreps_in[i].mul, ir) for i, _, ir in triples]
        ).sort()
        #: Blocks of input, of edge attribute and of output of each path, in the weights' order.
        self.paths = [(i, j, k) for (i, j, _), k in zip(triples, place, strict=True)]
        copies = [0] * len(triples)
        for (_, j, _), k in zip(triples, place, strict=True):
            copies[k] = irreps_edge_attr[j].mul
        sizes = [block.dim for block in self.irreps_out]
        starts = _starts([n * size for n, size in zip(copies, sizes, strict=True)])
        #: (copies, size) of each output block before the copies of an edge attribute are added.
        self._parts = list(zip(copies, sizes, strict=True))
        self._summed = any(n > 1 for n in copies)
        x_offsets = _starts([block.dim for block in irreps_in])
        y_offsets = _starts([block.dim for block in irreps_edge_attr])
        paths, shapes, w_offset = [], [], 0
        for (i, j, ir), k in zip(triples, place, strict=True):
            (mul, ir_in), (n_copies, ir_edge) = irreps_in[i], irreps_edge_attr[j]
            norm = scale * math.sqrt(ir.dim / n_copies)
            coupling = o3.wigner_3j_numpy(ir_in.l, ir_edge.l, ir.l) * norm
            for v in range(n_copies):
                paths.append(
                    kernels.ConvolutionPath(
                        x_offset=x_offsets[i],
                        x_stride=mul,
                        d1=ir_in.dim,
                        y_offset=y_offsets[j] + v * ir_edge.dim,
                        d2=ir_edge.dim,
                        w_offset=w_offset + v * mul,
                        out_offset=starts[k] + v * mul * ir.dim,
                        out_stride=mul,
                        d3=ir.dim,
                        mul=mul,
                        coefficients=coupling,
                    )
                )
            shapes.append((mul, n_copies))
            w_offset += mul * n_copies
        self.feature_dtype = "float32"
        self.weight_numel = w_offset
        self._weight_shapes = shapes
        self.spec = kernels.ConvolutionSpec(
            irreps_in.dim,
            irreps_edge_attr.dim,
            w_offset,
            sum(n * size for n, size in self._parts),
            tuple(paths),
        )

    def __call__(
        self,
        x: Float[mx.array, "n_nodes dim_in"],
        edge_attr: Float[mx.array, "n_edges dim_edge"],
        weights: Float[mx.array, "n_edges weight_numel"] | TableWeights,
        edges: kernels.EdgeIndex,
    ) -> Float[mx.array, "n_nodes dim_out"]:
        """Sums at the receivers, component-major, (n_nodes, irreps_out.dim)."""
        if isinstance(weights, TableWeights):
            table = self._copy_by_copy(weights.table) if self._summed else weights.table
            weights = weights._replace(table=table)
        else:
            weights = self._copy_by_copy(weights) if self._summed else weights
        kept = short_features.FEATURE_DTYPES[self.feature_dtype]
        out = short_features.convolution(self.spec, x, edge_attr, weights, edges, kept)
        if not self._summed:
            return out
        pieces = o3.layout.split_columns(out, [n * size for n, size in self._parts])
        return mx.concatenate(
            [
                piece.reshape(-1, n, size).sum(axis=1)
                for piece, (n, size) in zip(pieces, self._parts, strict=True)
            ],
            axis=1,
        )

    def _copy_by_copy(self, weights: mx.array) -> mx.array:
        """Weights of each path with the edge attribute's channel v first, then u."""
        # Splits and transposes: a choice of columns would have no forward derivative of its
        # backward pass.
        pieces = o3.layout.split_columns(weights, [mul * n for mul, n in self._weight_shapes])
        n_edges = weights.shape[0]
        return mx.concatenate(
            [
                piece.reshape(n_edges, mul, n).swapaxes(1, 2).reshape(n_edges, n * mul)
                for piece, (mul, n) in zip(pieces, self._weight_shapes, strict=True)
            ],
            axis=1,
        )


def _starts(sizes: list[int]) -> list[int]:
    return [0, *np.cumsum(sizes).tolist()] if sizes else [0]
