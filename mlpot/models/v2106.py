"""The point models of e3nn's v2106, under e3nn's names, arguments and weight names."""

from __future__ import annotations

from collections.abc import Sequence

from mlpot import o3
from mlpot.nn.normalization_constants import Convention

from . import message_passing, point_networks
from .point_convolution import PointConvolution
from .radial_strategy import Strategy

__all__ = ["Convolution", "MessagePassing", "NetworkForAGraphWithAttributes", "SimpleNetwork"]


class Convolution(PointConvolution):
    """Convolution of v2106; see `PointConvolution` for the equations.

    Args:
        irreps_node_input: of the node features.
        irreps_node_attr: of the node attributes.
        irreps_edge_attr: of the edge attributes.
        irreps_node_output: of the result.
        fc_neurons: widths of the radial network, input first, without its last layer.
        num_neighbors: average number of neighbours.
        normalization: convention of the activations' constants.
    """

    _family = point_networks.V2106

    def __init__(
        self,
        irreps_node_input: o3.Irreps | str,
        irreps_node_attr: o3.Irreps | str,
        irreps_edge_attr: o3.Irreps | str,
        irreps_node_output: o3.Irreps | str,
        fc_neurons: Sequence[int],
        num_neighbors: float,
        normalization: Convention = "e3nn",
    ) -> None:
        super().__init__(
            irreps_node_input,
            irreps_node_attr,
            irreps_edge_attr,
            irreps_node_output,
            fc_neurons,
            num_neighbors,
            mixing=self._family.mixing,
            normalization=normalization,
        )


class MessagePassing(message_passing.MessagePassing):
    """Gated convolutions of v2106, then a plain one.

    Args:
        irreps_node_sequence: input, hidden irreps of each layer, output.
        irreps_node_attr: of the node attributes.
        irreps_edge_attr: of the edge attributes.
        fc_neurons: widths of the radial networks, input first.
        num_neighbors: average number of neighbours.
        normalization: convention of the activations' constants.
    """

    _family = point_networks.V2106

    def __init__(
        self,
        irreps_node_sequence: Sequence[o3.Irreps | str],
        irreps_node_attr: o3.Irreps | str,
        irreps_edge_attr: o3.Irreps | str,
        fc_neurons: Sequence[int],
        num_neighbors: float,
        normalization: Convention = "e3nn",
    ) -> None:
        super().__init__(
            irreps_node_sequence,
            irreps_node_attr,
            irreps_edge_attr,
            fc_neurons,
            num_neighbors,
            mixing=self._family.mixing,
            normalization=normalization,
        )


class SimpleNetwork(point_networks.PointNetwork):
    """Network without attributes: `data` has ``pos``, ``x`` and what `point_graph` takes.

    Args:
        irreps_in: of the node features.
        irreps_out: of the result.
        max_radius: cutoff, unit of the positions.
        num_neighbors: average number of neighbours.
        num_nodes: average number of nodes, for pooling.
        mul: channels of each hidden irrep.
        layers: gated convolutions.
        lmax: highest degree.
        pool_nodes: whether nodes are summed to graphs, over sqrt(num_nodes).
        normalization: convention of the activations' constants.
        radial: where edge weights come from: "exact" (as in e3nn), "table" or "auto".
        use_custom_kernel: kernels where they are faster (None), always (True) or never (False);
            the results are the same, and so are derivatives in any nesting.
    """

    _family = point_networks.V2106

    def __init__(
        self,
        irreps_in: o3.Irreps | str,
        irreps_out: o3.Irreps | str,
        max_radius: float,
        num_neighbors: float,
        num_nodes: float,
        mul: int = 50,
        layers: int = 3,
        lmax: int = 2,
        pool_nodes: bool = True,
        normalization: Convention = "e3nn",
        radial: Strategy = "exact",
        use_custom_kernel: bool | None = None,
    ) -> None:
        super().__init__(
            self._family,
            irreps_in,
            None,
            None,
            irreps_out,
            max_radius,
            num_neighbors,
            num_nodes,
            mul,
            layers,
            lmax,
            pool_nodes,
            normalization,
            radial,
            use_custom_kernel,
        )
        self.irreps_in, self.irreps_out = self.irreps_node_input, self.irreps_node_output


class NetworkForAGraphWithAttributes(point_networks.PointNetwork):
    """Network with node and edge attributes; the user's edge attributes precede the harmonics.

    Args:
        irreps_node_input: of the node features.
        irreps_node_attr: of the node attributes.
        irreps_edge_attr: of the user's edge attributes.
        irreps_node_output: of the result.
        max_radius: cutoff, unit of the positions.
        num_neighbors: average number of neighbours.
        num_nodes: average number of nodes, for pooling.
        mul: channels of each hidden irrep.
        layers: gated convolutions.
        lmax: highest degree.
        pool_nodes: whether nodes are summed to graphs, over sqrt(num_nodes).
        normalization: convention of the activations' constants.
        radial: where edge weights come from: "exact" (as in e3nn), "table" or "auto".
        use_custom_kernel: kernels where they are faster (None), always (True) or never (False);
            the results are the same, and so are derivatives in any nesting.
    """

    _family = point_networks.V2106

    def __init__(
        self,
        irreps_node_input: o3.Irreps | str,
        irreps_node_attr: o3.Irreps | str,
        irreps_edge_attr: o3.Irreps | str,
        irreps_node_output: o3.Irreps | str,
        max_radius: float,
        num_neighbors: float,
        num_nodes: float,
        mul: int = 50,
        layers: int = 3,
        lmax: int = 2,
        pool_nodes: bool = True,
        normalization: Convention = "e3nn",
        radial: Strategy = "exact",
        use_custom_kernel: bool | None = None,
    ) -> None:
        super().__init__(
            self._family,
            irreps_node_input,
            irreps_node_attr,
            irreps_edge_attr,
            irreps_node_output,
            max_radius,
            num_neighbors,
            num_nodes,
            mul,
            layers,
            lmax,
            pool_nodes,
            normalization,
            radial,
            use_custom_kernel,
        )
