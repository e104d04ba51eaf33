"""Gated convolutions one after the other: the message passing of the point models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
import mlx.nn
from jaxtyping import Float, Int

from mlpot import kernels, o3
from mlpot.nn import Gate
from mlpot.nn.normalization_constants import Convention

from .point_convolution import Mixing, PointConvolution, with_e3nn_arguments
from .radial_edges import RadialEdges


class _Gated(mlx.nn.Module):
    """A convolution and its gate, under the names of e3nn's state dicts."""

    def __init__(self, first: PointConvolution, second: Gate) -> None:
        super().__init__()
        self.first = first
        self.second = second

    def on_edges(self, *inputs: Any) -> mx.array:
        return self.second(self.first.on_edges(*inputs))


def add_hidden(hidden: list | None, layer: Any, features: mx.array) -> None:
    """Keep the features of a gated layer, with their irreps, where they are asked for."""
    if hidden is not None and isinstance(layer, _Gated):
        hidden.append((layer.second.irreps_out, features))


def gate_for(
    irreps_in: o3.Irreps,
    irreps_edge_attr: o3.Irreps,
    irreps_hidden: o3.Irreps,
    normalization: Convention,
    merge_scalars: bool = True,
    even_gate: str = "sigmoid",
) -> Gate:
    """The gate that gives those hidden irreps that are reachable from input times edge.

    l = 0 blocks are activated (even silu, odd tanh); the others are multiplied by ``even_gate`` of
    0e gates where 0e is reachable, else by tanh of 0o gates. ``merge_scalars``: neighbouring l = 0
    blocks of one irrep become one, which orders the weights of the next layer as e3nn's do in all
    families but gate_points.
    """

    def reachable(ir: o3.Irrep) -> bool:
        return any(ir in a * b for _, a in irreps_in for _, b in irreps_edge_attr)

    kept = [(mul, ir) for mul, ir in irreps_hidden if reachable(ir)]
    scalars = o3.Irreps([block for block in kept if block[1].l == 0])
    scalars = scalars.simplify() if merge_scalars else scalars
    gated = o3.Irreps([block for block in kept if block[1].l > 0])
    ir_gate = o3.Irrep("0e") if reachable(o3.Irrep("0e")) else o3.Irrep("0o")
    gates = o3.Irreps([(mul, ir_gate) for mul, _ in gated]).simplify()
    by_parity = {1: "silu", -1: "tanh"}
    gate_by_parity = {1: even_gate, -1: "tanh"}
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
    """Gated convolutions for the hidden irreps, then a plain one.

    The layers are ``layers.0.first`` (convolution), ``layers.0.second`` (gate), ..., and last the
    plain convolution, as in e3nn.

    Args:
        irreps_node_sequence: input, hidden irreps of each layer, output.
        irreps_node_attr: of the node attributes.
        irreps_edge_attr: of the edge attributes.
        fc_neurons: widths of the radial networks, input first.
        num_neighbors: average number of neighbours.
        mixing: see `PointConvolution`.
        alpha_start: see `PointConvolution`.
        normalization: convention of the activations' constants.

    Raises:
        ValueError: fewer than two entries in the sequence.
    """

    def __init__(
        self,
        irreps_node_sequence: Sequence[o3.Irreps | str],
        irreps_node_attr: o3.Irreps | str,
        irreps_edge_attr: o3.Irreps | str,
        fc_neurons: Sequence[int],
        num_neighbors: float,
        mixing: Mixing = "alpha",
        alpha_start: float = 0.0,
        normalization: Convention = "e3nn",
    ) -> None:
        super().__init__()
        if len(irreps_node_sequence) < 2:
            raise ValueError(
                f"irreps_node_sequence is {list(irreps_node_sequence)}; give at least the irreps "
                "of the input and of the output"
            )
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
                mixing,
                alpha_start,
                normalization,
            )

        self.layers = gated_layers(first, hidden, last, edge_attr, convolution, normalization)
        self.irreps_node_input = first
        self.irreps_node_attr = o3.Irreps(irreps_node_attr)
        self.irreps_node_output = last

    def on_edges(
        self,
        node_features: Float[mx.array, "n_nodes dim_in"],
        node_attr: Float[mx.array, "n_nodes dim_attr"],
        edges: kernels.EdgeIndex,
        edge_attr: Float[mx.array, "n_edges dim_edge"],
        edge_scalars: Float[mx.array, "n_edges n_scalars"] | RadialEdges,
        hidden: list | None = None,
    ) -> Float[mx.array, "n_nodes dim_out"]:
        """Component-major features of the last layer, (n_nodes, irreps_node_output.dim).

        ``hidden``: those of the gated layers are added to it, as (irreps, features).
        """
        for layer in self.layers:
            node_features = layer.on_edges(node_features, node_attr, edges, edge_attr, edge_scalars)
            add_hidden(hidden, layer, node_features)
        return node_features

    def __call__(
        self,
        node_features: Float[mx.array, "n_nodes dim_in"],
        node_attr: Float[mx.array, "n_nodes dim_attr"],
        edge_src: Int[mx.array, " n_edges"],
        edge_dst: Int[mx.array, " n_edges"],
        edge_attr: Float[mx.array, "n_edges dim_edge"],
        edge_scalars: Float[mx.array, "n_edges n_scalars"],
    ) -> Float[mx.array, "n_nodes dim_out"]:
        """As `on_edges`, with e3nn's arguments and layout and edges in any order."""
        return with_e3nn_arguments(
            self, node_features, node_attr, edge_src, edge_dst, edge_attr, edge_scalars
        )


def gated_layers(
    irreps: o3.Irreps,
    hidden: Sequence[o3.Irreps],
    last: o3.Irreps,
    irreps_edge_attr: o3.Irreps,
    convolution: Callable[[o3.Irreps, o3.Irreps], PointConvolution],
    normalization: Convention,
    merge_scalars: bool = True,
) -> list:
    """A gated convolution for each of the hidden irreps, then a plain one to the last."""
    layers: list = []
    for irreps_hidden in hidden:
        gate = gate_for(irreps, irreps_edge_attr, irreps_hidden, normalization, merge_scalars)
        layers.append(_Gated(convolution(irreps, gate.irreps_in), gate))
        irreps = gate.irreps_out
    layers.append(convolution(irreps, last))
    return layers
