"""The point models gate_points 2101 and 2102 of e3nn, under e3nn's names and arguments."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import mlx.core as mx
import mlx.nn
from jaxtyping import Float

from mlpot import kernels, nn, o3
from mlpot.nn.normalization_constants import Convention

from .message_passing import add_hidden, gated_layers
from .point_convolution import PointConvolution
from .point_graph import point_graph
from .point_networks import harmonics, needed
from .radial_edges import RadialEdges

__all__ = ["Convolution", "Network", "Network2101"]


class Convolution(PointConvolution):
    """Convolution of 2101 and 2102: fixed mixing by sin(pi/8) and cos(pi/8).

    Args:
        irreps_in: of the node features.
        irreps_node_attr: of the node attributes.
        irreps_edge_attr: of the edge attributes.
        irreps_out: of the result; as the input by default.
        number_of_edge_features: inputs of the radial network (2101: ``number_of_basis``).
        radial_layers: hidden layers of the radial network.
        radial_neurons: their width.
        num_neighbors: average number of neighbours.
        normalization: convention of the activations' constants.
    """

    def __init__(
        self,
        irreps_in: o3.Irreps | str,
        irreps_node_attr: o3.Irreps | str,
        irreps_edge_attr: o3.Irreps | str,
        irreps_out: o3.Irreps | str | None,
        number_of_edge_features: int,
        radial_layers: int,
        radial_neurons: int,
        num_neighbors: float,
        normalization: Convention = "e3nn",
    ) -> None:
        super().__init__(
            irreps_in,
            irreps_node_attr,
            irreps_edge_attr,
            irreps_in if irreps_out is None else irreps_out,
            [number_of_edge_features, *[radial_neurons] * radial_layers],
            num_neighbors,
            mixing="fixed",
            normalization=normalization,
        )


class GatePointsLayers(mlx.nn.Module):
    """Gated convolutions of 2101 and 2102 with their edge features.

        a = cutoff(|r| / r_max) Y(r / |r|)
        f = [gaussians of |r| sqrt(number_of_basis), z0[sender], z0[receiver]]

    with z0 the 0e part of the node attributes (2102 only).
    """

    def __init__(
        self,
        irreps_in: o3.Irreps,
        irreps_hidden: o3.Irreps,
        irreps_out: o3.Irreps,
        irreps_node_attr: o3.Irreps,
        irreps_edge_attr: o3.Irreps,
        layers: int,
        max_radius: float,
        number_of_basis: int,
        radial_neurons: Sequence[int],
        num_neighbors: float,
        species_on_edges: bool,
        normalization: Convention,
    ) -> None:
        super().__init__()
        self.max_radius, self.number_of_basis = max_radius, number_of_basis
        self.irreps_node_input, self.irreps_node_output = irreps_in, irreps_out
        self.irreps_node_attr, self.irreps_edge_attr = irreps_node_attr, irreps_edge_attr
        invariant = o3.Irrep(0, 1)
        self._invariant = [
            part
            for block, part in zip(irreps_node_attr, irreps_node_attr.slices(), strict=True)
            if species_on_edges and block.ir == invariant
        ]
        n_features = number_of_basis + 2 * sum(part.stop - part.start for part in self._invariant)

        def convolution(irreps_from: o3.Irreps, irreps_to: o3.Irreps) -> PointConvolution:
            return PointConvolution(
                irreps_from,
                irreps_node_attr,
                irreps_edge_attr,
                irreps_to,
                [n_features, *radial_neurons],
                num_neighbors,
                mixing="fixed",
                normalization=normalization,
            )

        self.layers = gated_layers(
            irreps_in, [irreps_hidden] * layers, irreps_out, irreps_edge_attr, convolution,
            normalization, merge_scalars=False,
        )  # fmt: skip

    def radial_functions(
        self, length: Float[mx.array, " n_edges"]
    ) -> Float[mx.array, "n_edges number"]:
        """Gaussians of the length, which do not vanish at the cutoff."""
        basis = nn.soft_one_hot_linspace(
            length, 0.0, self.max_radius, self.number_of_basis, basis="gaussian", cutoff=False
        )
        return basis * math.sqrt(self.number_of_basis)

    def on_edges(
        self,
        x: Float[mx.array, "n_nodes dim_in"],
        z: Float[mx.array, "n_nodes dim_attr"],
        vectors: Float[mx.array, "n_edges 3"],
        edges: kernels.EdgeIndex,
        scalars: Float[mx.array, "n_edges n_scalars"] | RadialEdges | None = None,
        smooth: bool = False,
        hidden: list | None = None,
    ) -> Float[mx.array, "n_nodes dim_out"]:
        """Component-major features of the last layer.

        Args:
            x: (n_nodes, irreps_node_input.dim), component-major.
            z: (n_nodes, irreps_node_attr.dim), e3nn's layout.
            vectors: (n_edges, 3), from receiver to sender.
            edges: sorted by receiver.
            scalars: f, or what it is a function of; made from ``vectors`` and ``z`` where not
                given.
            smooth: a cutoff of class C2 (polynomial, p = 6) in place of e3nn's of class C1.
            hidden: the features of gated layers are added to it, as (irreps, features).

        Returns:
            (n_nodes, irreps_node_output.dim).
        """
        length = kernels.lengths(vectors)
        u = length / self.max_radius
        cutoff = nn.polynomial_cutoff(u, 1.0, 6) if smooth else nn.smooth_cutoff(u)
        attributes = cutoff[:, None] * harmonics(self.irreps_edge_attr, vectors)
        if scalars is None:
            features = [self.radial_functions(length)]
            if self._invariant:
                invariants = mx.concatenate([z[:, part] for part in self._invariant], axis=1)
                features += [kernels.gather(invariants, edges.senders, edges.by_sender)]
                features += [kernels.gather(invariants, edges.receivers, edges.by_receiver)]
            scalars = mx.concatenate(features, axis=1)
        for layer in self.layers:
            x = layer.on_edges(x, z, edges, attributes, scalars)
            add_hidden(hidden, layer, x)
        return x


class Network(GatePointsLayers):
    """Network of gate_points 2102 on e3nn's data dictionary (see `point_graph` for its keys).

    Args:
        irreps_in: of the node features ``x``; None: ones.
        irreps_hidden: hidden irreps; each layer keeps those that are reachable.
        irreps_out: of the result.
        irreps_node_attr: of the node attributes ``z``; None: ones.
        irreps_edge_attr: harmonics on the edges.
        layers: gated convolutions.
        max_radius: cutoff, unit of the positions.
        number_of_basis: radial basis functions.
        radial_layers: hidden layers of the radial networks.
        radial_neurons: their width.
        num_neighbors: average number of neighbours.
        num_nodes: average number of nodes, for pooling.
        reduce_output: whether nodes are summed to graphs, over sqrt(num_nodes).
        normalization: convention of the activations' constants.
        use_custom_kernel: kernels where they are faster (None), always (True) or never (False);
            the results are the same, and so are derivatives in any nesting.
    """

    _species_on_edges = True

    def __init__(
        self,
        irreps_in: o3.Irreps | str | None,
        irreps_hidden: o3.Irreps | str,
        irreps_out: o3.Irreps | str,
        irreps_node_attr: o3.Irreps | str | None,
        irreps_edge_attr: o3.Irreps | str,
        layers: int,
        max_radius: float,
        number_of_basis: int,
        radial_layers: int,
        radial_neurons: int,
        num_neighbors: float,
        num_nodes: float,
        reduce_output: bool = True,
        normalization: Convention = "e3nn",
        use_custom_kernel: bool | None = None,
    ) -> None:
        super().__init__(
            o3.Irreps("0e" if irreps_in is None else irreps_in),
            o3.Irreps(irreps_hidden),
            o3.Irreps(irreps_out),
            o3.Irreps("0e" if irreps_node_attr is None else irreps_node_attr),
            o3.Irreps(irreps_edge_attr),
            layers,
            max_radius,
            number_of_basis,
            [radial_neurons] * radial_layers,
            num_neighbors,
            self._species_on_edges,
            normalization,
        )
        self.num_nodes, self.reduce_output = num_nodes, reduce_output
        self.use_custom_kernel = use_custom_kernel
        self._given_input = irreps_in is not None
        self._given_attr = irreps_node_attr is not None

    def __call__(self, data: Mapping[str, Any]) -> Float[mx.array, "n dim_out"]:
        """Outputs of the graphs, or of the nodes without pooling.

        Args:
            data: keys of `point_graph`, and ``x`` and ``z`` where the network has them.

        Returns:
            (n_graphs or n_nodes, irreps_out.dim).

        Raises:
            ValueError: a key is missing, or kernels are forced and there is none.
        """
        with kernels.forced(self.use_custom_kernel):
            return self._outputs(data)

    def _outputs(self, data: Mapping[str, Any]) -> mx.array:
        points = point_graph(data, self.max_radius)
        ones = mx.ones((data["pos"].shape[0], 1), dtype=data["pos"].dtype)
        x = needed(data, "x") if self._given_input else ones
        z = needed(data, "z") if self._given_attr else ones
        x = o3.convert_layout(x, self.irreps_node_input, "mul_ir", "ir_mul")
        out = self.on_edges(x, z, points.vectors, points.edges)
        out = o3.convert_layout(out, self.irreps_node_output, "ir_mul", "mul_ir")
        return points.pool(out, self.num_nodes) if self.reduce_output else out


class Network2101(Network):
    """Network of gate_points 2101: as `Network`, without the node attributes on the edges."""

    _species_on_edges = False
