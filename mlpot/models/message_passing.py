"""Gated convolutions one after the other: the message passing of the point models."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx
import mlx.nn
from jaxtyping import Float

from mlpot import kernels, o3
from mlpot.nn import Gate
from mlpot.nn.normalization_constants import Convention

from .point_convolution import PointConvolution


class _Gated(mlx.nn.Module):
    """A convolution and its gate, under the names of e3nn's state dicts."""

    def __init__(self, first: PointConvolution, second: Gate) -> None:
        super().__init__()
        self.first = first
        self.second = second

    def __call__(self, *inputs):
        return self.second(self.first(*inputs))


def gate_for(
    irreps_in: o3.Irreps,
    irreps_edge_attr: o3.Irreps,
    irreps_hidden: o3.Irreps,
    normalization: Convention,
) -> Gate:
    """The gate that gives those hidden irreps that are reachable from input times edge.

    l = 0 blocks are activated (even silu, odd tanh); the others are multiplied by sigmoid of 0e
    gates where 0e is reachable, else by tanh of 0o gates.
    """

    def reachable(ir: o3.Irrep) -> bool:
        return any(ir in a * b for _, a in irreps_in for _, b in irreps_edge_attr)

    kept = [(mul, ir) for mul, ir in irreps_hidden if reachable(ir)]
    scalars = o3.Irreps([block for block in kept if block[1].l == 0])
    gated = o3.Irreps([block for block in kept if block[1].l > 0])
    ir_gate = o3.Irrep("0e") if reachable(o3.Irrep("0e")) else o3.Irrep("0o")
    gates = o3.Irreps([(mul, ir_gate) for mul, _ in gated]).simplify()
    by_parity = {1: "silu", -1: "tanh"}
    gate_by_parity = {1: "sigmoid", -1: "tanh"}
    return Gate(
        scalars,
        [by_parity[ir.p] for _, ir in scalars],
        gates,
        [gate_by_parity[ir.p] for _, ir in gates],
        gated,
        layout="ir_mul",
        normalization=normalization,
    )


class MessagePassing(mlx.nn.Module):
    """Gated convolutions for the hidden irreps, then a plain one, on component-major features.

    Args:
        irreps_node_sequence: input, hidden irreps of each layer, output.
        irreps_node_attr: of the node attributes.
        irreps_edge_attr: of the edge attributes, multiplicity 1 each.
        fc_neurons: widths of the radial networks, input first.
        num_neighbors: average number of neighbours.
        alpha_start: see `PointConvolution`.
        normalization: convention of the activations' constants.
    """

    def __init__(
        self,
        irreps_node_sequence: Sequence[o3.Irreps | str],
        irreps_node_attr: o3.Irreps | str,
        irreps_edge_attr: o3.Irreps | str,
        fc_neurons: Sequence[int],
        num_neighbors: float,
        alpha_start: float = 0.0,
        normalization: Convention = "e3nn",
    ) -> None:
        super().__init__()
        first, *hidden, last = [o3.Irreps(irreps) for irreps in irreps_node_sequence]
        edge_attr = o3.Irreps(irreps_edge_attr)

        def convolution(irreps_in: o3.Irreps, irreps_out: o3.Irreps) -> PointConvolution:
            return PointConvolution(
                irreps_in,
                irreps_node_attr,
                edge_attr,
                irreps_out,
                fc_neurons,
                num_neighbors,
                alpha_start,
                normalization,
            )

        self.irreps_node_input = irreps = first
        self.layers = []
        for irreps_hidden in hidden:
            gate = gate_for(irreps, edge_attr, irreps_hidden, normalization)
            self.layers.append(_Gated(convolution(irreps, gate.irreps_in), gate))
            irreps = gate.irreps_out
        self.layers.append(convolution(irreps, last))
        self.irreps_node_output = last

    def __call__(
        self,
        node_features: Float[mx.array, "n_nodes dim_in"],
        node_attr: Float[mx.array, "n_nodes dim_attr"],
        edges: kernels.EdgeIndex,
        edge_attr: Float[mx.array, "n_edges dim_edge"],
        edge_scalars: Float[mx.array, "n_edges n_scalars"],
    ) -> Float[mx.array, "n_nodes dim_out"]:
        """Component-major features of the last layer, (n_nodes, irreps_node_output.dim)."""
        for layer in self.layers:
            node_features = layer(node_features, node_attr, edges, edge_attr, edge_scalars)
        return node_features
