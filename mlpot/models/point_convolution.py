"""The convolution of the point models: self connection, sum of messages, mixing of the two."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import mlx.core as mx
import mlx.nn
import numpy as np
from jaxtyping import Float, Int

from mlpot import kernels, o3
from mlpot.nn import FullyConnectedNet
from mlpot.nn.normalization_constants import Convention

from .messages import MessageSum
from .radial_edges import RadialEdges
from .radial_table import RadialTable

Mixing = Literal["alpha", "angle", "fixed"]


class PointConvolution(mlx.nn.Module):
    """One convolution for all point models.

        s   = FCTP(x, z -> out)              y = FCTP(x, z -> in)
        agg = sum_{e into n} TP(y[sender], a; MLP(f)) / sqrt(num_neighbors)
        c   = FCTP(agg, z -> out)

    With M = 1 on output components that s can reach, else 0, the two are mixed to

        alpha   s + ((1 - M) + alpha M) c,             alpha = FCTP(agg, z -> 0e)      (v2106)
        angle   cos(t) s + ((1 - M) + sin(t) M) c,     t = 0.1 FCTP(agg, z -> 0e)      (v2103)
        fixed   sin(pi/8) s + ((1 - M) + cos(pi/8) M) c                         (2101 and 2102)

    Weights carry e3nn's names: ``sc``, ``lin1``, ``fc``, ``lin2``, and ``alpha`` or ``lin3``.

    Args:
        irreps_node_input: of x.
        irreps_node_attr: of z.
        irreps_edge_attr: of a.
        irreps_node_output: of the result.
        fc_neurons: widths of the radial network, input first, without its last layer.
        num_neighbors: average number of neighbours.
        mixing: how self connection and messages are mixed.
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
        mixing: Mixing = "alpha",
        alpha_start: float = 0.0,
        normalization: Convention = "e3nn",
    ) -> None:
        super().__init__()
        if num_neighbors <= 0:
            raise ValueError(f"num_neighbors is {num_neighbors}; it must be positive")
        self.irreps_node_input = o3.Irreps(irreps_node_input)
        self.irreps_node_attr = o3.Irreps(irreps_node_attr)
        self.irreps_edge_attr = o3.Irreps(irreps_edge_attr)
        self.irreps_node_output = o3.Irreps(irreps_node_output)
        self.num_neighbors = num_neighbors
        self.mixing: Mixing = mixing
        self._messages = MessageSum(
            self.irreps_node_input,
            self.irreps_edge_attr,
            self.irreps_node_output,
            scalars_too=mixing != "fixed",
            scale=1.0 / math.sqrt(num_neighbors),
        )

        def product(irreps_in: o3.Irreps, irreps_out: o3.Irreps):
            return o3.FullyConnectedTensorProduct(
                irreps_in, self.irreps_node_attr, irreps_out, layout="ir_mul"
            )

        mid = self._messages.irreps_out
        self.sc = product(self.irreps_node_input, self.irreps_node_output)
        self.lin1 = product(self.irreps_node_input, self.irreps_node_input)
        self.fc = FullyConnectedNet(
            [*fc_neurons, self._messages.weight_numel], "silu", normalization=normalization
        )
        self.radial_table = RadialTable()
        self.lin2 = product(mid, self.irreps_node_output)
        if mixing == "alpha":
            self.alpha = product(mid, o3.Irreps("0e"))
            if self.alpha.weight_numel:
                self.alpha.weight = alpha_start * mx.random.normal(self.alpha.weight.shape)
        elif mixing == "angle":
            self.lin3 = product(mid, o3.Irreps("0e"))
        mask = _component_major_mask(self.sc, self.irreps_node_output)
        #: Columns that the self connection reaches; None: all.
        self._mask = None
        if mixing == "alpha":
            self._mixing = kernels.Mixing(mask)
        elif not mask.all():
            self._mask, self._rest = kernels.Constant(mask), kernels.Constant(1.0 - mask)

    @property
    def radial_network(self) -> FullyConnectedNet:
        """What makes edge weights of edge scalars."""
        return self.fc

    def on_edges(
        self,
        node_input: Float[mx.array, "n_nodes dim_in"],
        node_attr: Float[mx.array, "n_nodes dim_attr"],
        edges: kernels.EdgeIndex,
        edge_attr: Float[mx.array, "n_edges dim_edge"],
        edge_scalars: Float[mx.array, "n_edges n_scalars"] | RadialEdges,
    ) -> Float[mx.array, "n_nodes dim_out"]:
        """Convolve component-major features over a sorted edge list.

        Args:
            node_input: (n_nodes, irreps_node_input.dim), component-major.
            node_attr: (n_nodes, irreps_node_attr.dim), e3nn's layout.
            edges: sorted by receiver.
            edge_attr: (n_edges, irreps_edge_attr.dim), e3nn's layout.
            edge_scalars: (n_edges, fc_neurons[0]), or the distances that they are functions of.

        Returns:
            (n_nodes, irreps_node_output.dim), component-major.
        """
        own = self.sc(node_input, node_attr)
        sent = self.lin1(node_input, node_attr)
        weights = self.radial_table.weights(self.fc, edge_scalars)
        summed = self._messages(sent, edge_attr, weights, edges)
        got = self.lin2(summed, node_attr)
        if self.mixing == "alpha":
            return self._mixing(own, self.alpha(summed, node_attr), got)
        if self.mixing == "angle":
            angle = 0.1 * self.lin3(summed, node_attr)
            return kernels.cos(angle) * own + self._where_own(kernels.sin(angle), got)
        return math.sin(math.pi / 8) * own + self._where_own(math.cos(math.pi / 8), got)

    def _where_own(self, factor: mx.array | float, got: mx.array) -> mx.array:
        """``got`` times the factor, in columns that the self connection reaches."""
        if self._mask is None:
            return factor * got
        return (self._rest(got.dtype) + factor * self._mask(got.dtype)) * got

    def __call__(
        self,
        node_input: Float[mx.array, "n_nodes dim_in"],
        node_attr: Float[mx.array, "n_nodes dim_attr"],
        edge_src: Int[mx.array, " n_edges"],
        edge_dst: Int[mx.array, " n_edges"],
        edge_attr: Float[mx.array, "n_edges dim_edge"],
        edge_scalars: Float[mx.array, "n_edges n_scalars"],
    ) -> Float[mx.array, "n_nodes dim_out"]:
        """Convolve with e3nn's arguments and layout; edges in any order.

        The edge list is sorted on the host, so this does not trace under ``mx.compile``;
        `on_edges` does.

        Args:
            node_input: (n_nodes, irreps_node_input.dim).
            node_attr: (n_nodes, irreps_node_attr.dim).
            edge_src: (n_edges,), senders.
            edge_dst: (n_edges,), receivers.
            edge_attr: (n_edges, irreps_edge_attr.dim).
            edge_scalars: (n_edges, fc_neurons[0]).

        Returns:
            (n_nodes, irreps_node_output.dim).
        """
        return with_e3nn_arguments(
            self, node_input, node_attr, edge_src, edge_dst, edge_attr, edge_scalars
        )


def with_e3nn_arguments(
    layer,
    node_input: mx.array,
    node_attr: mx.array,
    edge_src: mx.array,
    edge_dst: mx.array,
    edge_attr: mx.array,
    edge_scalars: mx.array,
) -> mx.array:
    """Call ``layer.on_edges`` with features in e3nn's layout and edges in any order."""
    edges, order = sorted_edges(edge_src, edge_dst, node_input.shape[0])
    x = o3.convert_layout(node_input, layer.irreps_node_input, "mul_ir", "ir_mul")
    out = layer.on_edges(
        x, node_attr, edges, kernels.gather(edge_attr, order), kernels.gather(edge_scalars, order)
    )
    return o3.convert_layout(out, layer.irreps_node_output, "ir_mul", "mul_ir")


def sorted_edges(
    edge_src: Int[mx.array | np.ndarray, " n_edges"],
    edge_dst: Int[mx.array | np.ndarray, " n_edges"],
    n_nodes: int,
) -> tuple[kernels.EdgeIndex, Int[mx.array, " n_edges"]]:
    """Edge list sorted by receiver, and where each of its edges was before."""
    senders, receivers = np.array(edge_src), np.array(edge_dst)
    order = np.argsort(receivers, kind="stable")
    edges = kernels.EdgeIndex.from_pairs(senders[order], receivers[order], n_nodes)
    return edges, mx.array(order.astype(np.int32))


def _component_major_mask(product: o3.FullyConnectedTensorProduct, irreps: o3.Irreps) -> np.ndarray:
    mask = np.array(product.output_mask, dtype=np.float64)
    parts = [np.zeros(0)]
    for block, part in zip(irreps, irreps.slices(), strict=True):
        parts.append(mask[part].reshape(block.mul, block.ir.dim).T.ravel())
    return np.concatenate(parts)
