"""Networks of e3nn's v2103 and v2106: message passing over harmonics and a radial basis."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import mlx.nn
from jaxtyping import Float

from mlpot import kernels, nn, o3
from mlpot.nn.normalization_constants import Convention
from mlpot.nn.soft_one_hot import Basis

from .message_passing import MessagePassing
from .point_convolution import Mixing
from .point_graph import PointGraph, point_graph
from .radial_edges import RadialEdges, RadialEmbedding
from .radial_strategy import Strategy, check_strategy

#: Number of radial basis functions and hidden width of the radial networks, as in e3nn.
NUMBER_OF_BASIS, RADIAL_WIDTH = 10, 100


@dataclass(frozen=True)
class Family:
    """What tells v2103 and v2106 apart: mixing of the convolution, radial basis."""

    mixing: Mixing
    basis: Basis


V2103 = Family("angle", "cosine")
V2106 = Family("alpha", "smooth_finite")


def radial_functions(
    length: Float[mx.array, " n_edges"], max_radius: float, number: int, basis: Basis
) -> Float[mx.array, "n_edges number"]:
    """Basis functions of the length, zero from ``max_radius`` on, of unit variance."""
    values = nn.soft_one_hot_linspace(length, 0.0, max_radius, number, basis=basis, cutoff=True)
    return values * math.sqrt(number)


def harmonics(
    irreps: o3.Irreps, vectors: Float[mx.array, "n_edges 3"]
) -> Float[mx.array, "n_edges dim"]:
    """Harmonics of the directions, component normalisation."""
    return o3.spherical_harmonics(irreps, vectors, normalize=True, normalization="component")


def hidden_irreps(mul: int, lmax: int) -> o3.Irreps:
    """``mul`` channels of every irrep up to lmax, odd before even for each l."""
    return o3.Irreps([(mul, (l, p)) for l in range(lmax + 1) for p in (-1, 1)])


class PointNetwork(mlx.nn.Module):
    """Network of one family on e3nn's data dictionary (see `point_graph` for its keys).

    Args:
        family: v2103 or v2106.
        irreps_node_input: of the node features.
        irreps_node_attr: of the node attributes; None: ones.
        irreps_edge_attr: of the user's edge attributes, which precede the harmonics; None: none.
        irreps_node_output: of the result.
        max_radius: cutoff, unit of the positions.
        num_neighbors: average number of neighbours.
        num_nodes: average number of nodes, for pooling.
        mul: channels of each hidden irrep.
        layers: gated convolutions.
        lmax: highest degree.
        pool_nodes: whether nodes are summed to graphs, over sqrt(num_nodes).
        normalization: convention of the activations' constants.
        radial: where edge weights come from; "exact" gives e3nn's numbers to the last digits.
        use_custom_kernel: None takes kernels where they are faster, True always, False never;
            the results are the same, and so are derivatives in any nesting.

    Raises:
        ValueError: ``radial`` is none of the three.
    """

    def __init__(
        self,
        family: Family,
        irreps_node_input: o3.Irreps | str,
        irreps_node_attr: o3.Irreps | str | None,
        irreps_edge_attr: o3.Irreps | str | None,
        irreps_node_output: o3.Irreps | str,
        max_radius: float,
        num_neighbors: float,
        num_nodes: float,
        mul: int,
        layers: int,
        lmax: int,
        pool_nodes: bool,
        normalization: Convention,
        radial: Strategy,
        use_custom_kernel: bool | None = None,
    ) -> None:
        super().__init__()
        self.use_custom_kernel = use_custom_kernel
        self.lmax, self.max_radius, self.num_nodes = lmax, max_radius, num_nodes
        self.number_of_basis = NUMBER_OF_BASIS
        self.pool_nodes = pool_nodes
        self.radial_strategy: Strategy = check_strategy(radial)
        steps = self.number_of_basis + 1
        self.radial = RadialEmbedding(
            functools.partial(
                radial_functions,
                max_radius=max_radius,
                number=self.number_of_basis,
                basis=family.basis,
            ),
            max_radius,
            # Each cosine ends with a kink; smooth_finite functions have none.
            tuple(max_radius * i / steps for i in range(1, steps))
            if family.basis == "cosine"
            else (),
        )
        self._attributed = irreps_node_attr is not None
        self.irreps_edge_attr = o3.Irreps(irreps_edge_attr or "")
        self._harmonics = o3.Irreps.spherical_harmonics(lmax)
        self.mp = MessagePassing(
            [irreps_node_input, *[hidden_irreps(mul, lmax)] * layers, irreps_node_output],
            "0e" if irreps_node_attr is None else irreps_node_attr,
            self.irreps_edge_attr + self._harmonics,
            [self.number_of_basis, RADIAL_WIDTH],
            num_neighbors,
            family.mixing,
            normalization=normalization,
        )
        self.irreps_node_input = self.mp.irreps_node_input
        self.irreps_node_attr = self.mp.irreps_node_attr
        self.irreps_node_output = self.mp.irreps_node_output

    def __call__(self, data: Mapping[str, Any]) -> Float[mx.array, "n dim_out"]:
        """Outputs of the graphs, or of the nodes without pooling.

        Args:
            data: keys of `point_graph`, ``x`` or ``node_input`` (n_nodes, dim), and where the
                network has attributes ``node_attr`` (n_nodes, dim) and ``edge_attr``
                (n_edges, dim) in the order of ``edge_index``.

        Returns:
            (n_graphs or n_nodes, irreps_node_output.dim).

        Raises:
            ValueError: a key is missing, or kernels are forced and there is none.
        """
        with kernels.forced(self.use_custom_kernel):
            return self._outputs(data)

    def _outputs(self, data: Mapping[str, Any]) -> mx.array:
        points = point_graph(data, self.max_radius)
        x = needed(data, "x", "node_input")
        z = needed(data, "node_attr") if self._attributed else mx.ones((x.shape[0], 1), x.dtype)
        x = o3.convert_layout(x, self.irreps_node_input, "mul_ir", "ir_mul")
        out = self.mp.on_edges(x, z, points.edges, *self._edges(data, points))
        out = o3.convert_layout(out, self.irreps_node_output, "ir_mul", "mul_ir")
        return points.pool(out, self.num_nodes) if self.pool_nodes else out

    def _edges(self, data: Mapping[str, Any], points: PointGraph) -> tuple[mx.array, RadialEdges]:
        attributes = harmonics(self._harmonics, points.vectors)
        if self.irreps_edge_attr.dim:
            if "edge_index" not in data:
                raise ValueError("edge_attr belongs to the edges of edge_index; give both")
            own = kernels.gather(needed(data, "edge_attr"), points.order)
            attributes = mx.concatenate([own, attributes], axis=1)
        length = kernels.lengths(points.vectors)
        return attributes, RadialEdges(self.radial, length, self.radial_strategy)


def needed(data: Mapping[str, Any], *names: str) -> mx.array:
    """The entry under the first of the names that is there.

    Raises:
        ValueError: none is.
    """
    for name in names:
        if name in data:
            return data[name]
    wanted = " or ".join(repr(name) for name in names)
    raise ValueError(f"data has the keys {sorted(data)}; {wanted} is needed")
