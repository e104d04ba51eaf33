"""The point models of e3nn's v2103, under e3nn's names, arguments and weight names.

They differ from v2106 by the mixing of the convolution (an angle) and the radial basis (cosine).
Arguments are the same but for `MessagePassing`, which has one kind of hidden layer here.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlpot import o3
from mlpot.nn.normalization_constants import Convention

from . import v2106
from .point_networks import V2103

__all__ = ["Convolution", "MessagePassing", "NetworkForAGraphWithAttributes", "SimpleNetwork"]


class Convolution(v2106.Convolution):
    """Convolution of v2103; see `PointConvolution` for the equations."""

    _family = V2103


class MessagePassing(v2106.MessagePassing):
    """Gated convolutions of v2103, then a plain one.

    Args:
        irreps_node_input: of the node features.
        irreps_node_hidden: of the hidden features; each layer keeps those that are reachable.
        irreps_node_output: of the result.
        irreps_node_attr: of the node attributes.
        irreps_edge_attr: of the edge attributes.
        layers: gated convolutions.
        fc_neurons: widths of the radial networks, input first.
        num_neighbors: average number of neighbours.
        normalization: convention of the activations' constants.
    """

    _family = V2103

    def __init__(
        self,
        irreps_node_input: o3.Irreps | str,
        irreps_node_hidden: o3.Irreps | str,
        irreps_node_output: o3.Irreps | str,
        irreps_node_attr: o3.Irreps | str,
        irreps_edge_attr: o3.Irreps | str,
        layers: int,
        fc_neurons: Sequence[int],
        num_neighbors: float,
        normalization: Convention = "e3nn",
    ) -> None:
        super().__init__(
            [irreps_node_input, *[irreps_node_hidden] * layers, irreps_node_output],
            irreps_node_attr,
            irreps_edge_attr,
            fc_neurons,
            num_neighbors,
            normalization,
        )
        self.irreps_node_hidden = o3.Irreps(irreps_node_hidden)


class SimpleNetwork(v2106.SimpleNetwork):
    """Network without attributes: `data` has ``pos``, ``x`` and what `point_graph` takes."""

    _family = V2103


class NetworkForAGraphWithAttributes(v2106.NetworkForAGraphWithAttributes):
    """Network with node and edge attributes; the user's edge attributes precede the harmonics."""

    _family = V2103
