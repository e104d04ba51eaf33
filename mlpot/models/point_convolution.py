"""The convolution of the point models: self connection, fused message sum, mixing."""

from __future__ import annotations

import math
from collections.abc import Sequence

import mlx.core as mx
import mlx.nn
import numpy as np
from jaxtyping import Float

from mlpot import kernels, o3
from mlpot.nn import FullyConnectedNet
from mlpot.nn.normalization_constants import Convention


def message_spec(
    irreps_in: o3.Irreps,
    irreps_edge_attr: o3.Irreps,
    irreps_out: o3.Irreps,
    scalars_too: bool,
    scale: float = 1.0,
) -> tuple[kernels.ConvolutionSpec, o3.Irreps]:
    """Paths of the uvu message product, in e3nn's order of weights.

    For each block of the input, each edge attribute and each allowed output irrep that occurs in
    ``irreps_out`` there is one path with an own output block; the blocks are sorted by irrep.

    Args:
        irreps_in: of the node features.
        irreps_edge_attr: of the edge attributes, multiplicity 1 each.
        irreps_out: irreps that are of use to what follows.
        scalars_too: whether 0e is always kept.
        scale: factor on all messages.

    Returns:
        The specification and the irreps of its (component-major) output.

    Raises:
        ValueError: an edge attribute with a multiplicity other than 1.
    """
    if any(mul != 1 for mul, _ in irreps_edge_attr):
        raise ValueError(
            f"irreps_edge_attr is {irreps_edge_attr}: every block needs multiplicity 1, "
            "e.g. Irreps.spherical_harmonics(lmax)"
        )
    wanted = {ir for _, ir in irreps_out} | ({o3.Irrep(0, 1)} if scalars_too else set())
    triples = [
        (i, j, ir)
        for i, (_, ir_in) in enumerate(irreps_in)
        for j, (_, ir_edge) in enumerate(irreps_edge_attr)
        for ir in ir_in * ir_edge
        if ir in wanted
    ]
    mid, place, _ = o3.Irreps([(irreps_in[i].mul, ir) for i, _, ir in triples]).sort()
    x_offsets = _offsets(irreps_in)
    y_offsets = _offsets(irreps_edge_attr)
    out_offsets = _offsets(mid)
    paths, w_offset = [], 0
    for (i, j, ir), k in zip(triples, place, strict=True):
        (mul, ir_in), ir_edge = irreps_in[i], irreps_edge_attr[j].ir
        coupling = o3.wigner_3j_numpy(ir_in.l, ir_edge.l, ir.l) * (scale * math.sqrt(ir.dim))
        paths.append(
            kernels.ConvolutionPath(
                x_offset=x_offsets[i],
                x_stride=mul,
                d1=ir_in.dim,
                y_offset=y_offsets[j],
                d2=ir_edge.dim,
                w_offset=w_offset,
                out_offset=out_offsets[k],
                out_stride=mul,
                d3=ir.dim,
                mul=mul,
                coefficients=coupling,
            )
        )
        w_offset += mul
    spec = kernels.ConvolutionSpec(
        irreps_in.dim, irreps_edge_attr.dim, w_offset, mid.dim, tuple(paths)
    )
    return spec, mid


def _offsets(irreps: o3.Irreps) -> list[int]:
    return [0, *np.cumsum([mul * ir.dim for mul, ir in irreps]).tolist()]


class PointConvolution(mlx.nn.Module):
    """Convolution of v2106 on component-major features.

        s   = FCTP(x, z -> out)              y = FCTP(x, z -> in)
        agg = sum_{e into n} TP(y[sender], a; MLP(f)) / sqrt(num_neighbors)
        c   = FCTP(agg, z -> out)            alpha = FCTP(agg, z -> 0e)
        out = s + ((1 - M) + alpha M) c

    M is 1 on output components that s can reach. Weights carry e3nn's names: ``sc``, ``lin1``,
    ``fc``, ``lin2``, ``alpha``.

    Args:
        irreps_node_input: of x.
        irreps_node_attr: of z.
        irreps_edge_attr: of a, multiplicity 1 each.
        irreps_node_output: of the result.
        fc_neurons: widths of the radial network, input first, without its last layer.
        num_neighbors: average number of neighbours.
        alpha_start: standard deviation of alpha's weights at the start. 0 is e3nn's; a network
            that gives scalars then has zero forces at the start.
        normalization: convention of the activations' constants.
    """

    def __init__(
        self,
        irreps_node_input: o3.Irreps | str,
        irreps_node_attr: o3.Irreps | str,
        irreps_edge_attr: o3.Irreps | str,
        irreps_node_output: o3.Irreps | str,
        fc_neurons: Sequence[int],
        num_neighbors: float,
        alpha_start: float = 0.0,
        normalization: Convention = "e3nn",
    ) -> None:
        super().__init__()
        self.irreps_node_input = o3.Irreps(irreps_node_input)
        self.irreps_node_attr = o3.Irreps(irreps_node_attr)
        self.irreps_edge_attr = o3.Irreps(irreps_edge_attr)
        self.irreps_node_output = o3.Irreps(irreps_node_output)
        self.num_neighbors = num_neighbors
        self._spec, mid = message_spec(
            self.irreps_node_input,
            self.irreps_edge_attr,
            self.irreps_node_output,
            scalars_too=True,
            scale=1.0 / math.sqrt(num_neighbors),
        )

        def product(irreps_in, irreps_out):
            return o3.FullyConnectedTensorProduct(
                irreps_in, self.irreps_node_attr, irreps_out, layout="ir_mul"
            )

        self.sc = product(self.irreps_node_input, self.irreps_node_output)
        self.lin1 = product(self.irreps_node_input, self.irreps_node_input)
        self.fc = FullyConnectedNet(
            [*fc_neurons, self._spec.n_weights], "silu", normalization=normalization
        )
        self.lin2 = product(mid, self.irreps_node_output)
        self.alpha = product(mid, o3.Irreps("0e"))
        self.alpha.weight = alpha_start * mx.random.normal(self.alpha.weight.shape)
        reached = {
            ir
            for _, ir_in in self.irreps_node_input
            for _, ir_z in self.irreps_node_attr
            for ir in ir_in * ir_z
        }
        mask = [np.full(mul * ir.dim, float(ir in reached)) for mul, ir in self.irreps_node_output]
        self._mask = kernels.Constant(np.concatenate([np.zeros(0), *mask]))

    def __call__(
        self,
        node_input: Float[mx.array, "n_nodes dim_in"],
        node_attr: Float[mx.array, "n_nodes dim_attr"],
        edges: kernels.EdgeIndex,
        edge_attr: Float[mx.array, "n_edges dim_edge"],
        edge_scalars: Float[mx.array, "n_edges n_scalars"],
    ) -> Float[mx.array, "n_nodes dim_out"]:
        """Convolve component-major features.

        Args:
            node_input: (n_nodes, irreps_node_input.dim).
            node_attr: (n_nodes, irreps_node_attr.dim).
            edges: sorted by receiver.
            edge_attr: (n_edges, irreps_edge_attr.dim).
            edge_scalars: (n_edges, fc_neurons[0]).

        Returns:
            (n_nodes, irreps_node_output.dim).
        """
        own = self.sc(node_input, node_attr)
        sent = self.lin1(node_input, node_attr)
        summed = kernels.convolution(self._spec, sent, edge_attr, self.fc(edge_scalars), edges)
        got = self.lin2(summed, node_attr)
        alpha = self.alpha(summed, node_attr)
        mask = self._mask(got.dtype)
        return own + ((1.0 - mask) + alpha * mask) * got
