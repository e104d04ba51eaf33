"""Backbones of potentials: species and edge vectors in, one number per atom out."""

from __future__ import annotations

import functools
import math

import mlx.core as mx
import mlx.nn
import numpy as np
from jaxtyping import Float

from mlpot import kernels, o3

from .config import BackboneConfig, GatePointsConfig, NequIPConfig, V2106Config
from .gate_points import GatePointsLayers
from .message_passing import MessagePassing
from .nequip import NequIPBackbone, scalars
from .point_networks import V2106, harmonics, hidden_irreps, radial_functions
from .radial_edges import RadialEdges, RadialEmbedding
from .radial_strategy import Strategy


class V2106Backbone(mlx.nn.Module):
    """Message passing of e3nn's v2106 ``SimpleNetwork``, with species as inputs and attributes.

    Node inputs are a learned embedding of the species, node attributes the species themselves
    (one-hot). Edge attributes are harmonics Y_0..Y_lmax of the edge direction (component
    normalisation); the radial networks see ``number_of_basis`` smooth_finite functions of the
    distance, which vanish with all derivatives at the cutoff, so the energy is infinitely often
    differentiable there; with radial tables twice everywhere.

    Args:
        config: sizes.
        n_species: number of species.
        cutoff: Angstrom.
        num_neighbors: average number of neighbours within the cutoff.
    """

    #: Number of continuous derivatives of the energy at the cutoff.
    smoothness = math.inf
    #: Whether mirror images have the same energy.
    mirror_symmetric = True

    def __init__(
        self, config: V2106Config, n_species: int, cutoff: float, num_neighbors: float
    ) -> None:
        super().__init__()
        self.radial = RadialEmbedding(
            functools.partial(
                radial_functions,
                max_radius=cutoff,
                number=config.number_of_basis,
                basis=V2106.basis,
            ),
            cutoff,
        )
        self.radial_strategy: Strategy = config.radial
        #: Number of continuous derivatives of the energy.
        self.smoothness = math.inf if config.radial == "exact" else 2
        self._irreps_edge_attr = o3.Irreps.spherical_harmonics(config.lmax)
        hidden = hidden_irreps(config.channels, config.lmax)
        self.embedding = o3.Linear(scalars(n_species), scalars(config.channels))
        self.mp = MessagePassing(
            [scalars(config.channels), *[hidden] * config.layers, scalars(1)],
            irreps_node_attr=scalars(n_species),
            irreps_edge_attr=self._irreps_edge_attr,
            fc_neurons=[config.number_of_basis, *config.radial_neurons],
            num_neighbors=num_neighbors,
            alpha_start=config.alpha_start,
            normalization=config.normalization,
        )

    @property
    def hops(self) -> int:
        """How many edges away an atom may be whose position an atom's energy depends on."""
        return len(self.mp.layers)

    def __call__(
        self,
        species: Float[mx.array, "n_atoms n_species"],
        vectors: Float[mx.array, "n_edges 3"],
        edges: kernels.EdgeIndex,
        hidden: list | None = None,
    ) -> Float[mx.array, " n_atoms"]:
        """One number per atom.

        Args:
            species: (n_atoms, n_species) one-hot; a row of zeros gives zero.
            vectors: (n_edges, 3), receiver to sender, Angstrom.
            edges: sorted by receiver.
            hidden: features of the hidden layers are added to it, as (irreps, features),
                component-major.

        Returns:
            (n_atoms,), dimensionless.
        """
        attributes = unit_variance(species)
        length = kernels.lengths(vectors)
        return self.mp.on_edges(
            self.embedding(attributes),
            attributes,
            edges,
            harmonics(self._irreps_edge_attr, vectors),
            RadialEdges(self.radial, length, self.radial_strategy),
            hidden,
        )[:, 0]


class GatePointsBackbone(mlx.nn.Module):
    """Network of e3nn's gate_points 2102 with species as inputs and attributes.

    Unlike e3nn's network it has a cutoff of class C2 (polynomial, p = 6), so that forces and
    Hessians are continuous.

    Args:
        config: sizes.
        n_species: number of species.
        cutoff: Angstrom.
        num_neighbors: average number of neighbours within the cutoff.
    """

    #: Number of continuous derivatives of the energy at the cutoff.
    smoothness = 2
    #: Whether mirror images have the same energy.
    mirror_symmetric = True

    def __init__(
        self, config: GatePointsConfig, n_species: int, cutoff: float, num_neighbors: float
    ) -> None:
        super().__init__()
        self.radial_strategy: Strategy = config.radial
        self.embedding = o3.Linear(scalars(n_species), scalars(config.channels))
        self.network = GatePointsLayers(
            scalars(config.channels),
            hidden_irreps(config.channels, config.lmax),
            scalars(1),
            scalars(n_species),
            o3.Irreps.spherical_harmonics(config.lmax),
            config.layers,
            cutoff,
            config.number_of_basis,
            config.radial_neurons,
            num_neighbors,
            species_on_edges=True,
            normalization=config.normalization,
        )
        one_hot = unit_variance_rows(n_species)
        first, second = np.divmod(np.arange(n_species**2), n_species)
        self.radial = RadialEmbedding(
            self.network.radial_functions,
            cutoff,
            features=kernels.Constant(np.concatenate([one_hot[first], one_hot[second]], axis=1)),
        )

    @property
    def hops(self) -> int:
        """As of `V2106Backbone`."""
        return len(self.network.layers)

    def __call__(
        self,
        species: Float[mx.array, "n_atoms n_species"],
        vectors: Float[mx.array, "n_edges 3"],
        edges: kernels.EdgeIndex,
        hidden: list | None = None,
    ) -> Float[mx.array, " n_atoms"]:
        """One number per atom; arguments as of `V2106Backbone`."""
        attributes = unit_variance(species)
        features = self.embedding(attributes)
        kinds = self._pairs(species, edges)
        length = kernels.lengths(vectors)
        scalars = RadialEdges(self.radial, length, self.radial_strategy, kinds)
        return self.network.on_edges(
            features, attributes, vectors, edges, scalars=scalars, smooth=True, hidden=hidden
        )[:, 0]

    @staticmethod
    def _pairs(species: mx.array, edges: kernels.EdgeIndex) -> mx.array:
        """Number of the pair (sender, receiver) of species of each edge, (n_edges,) int32."""
        index = mx.argmax(mx.stop_gradient(species), axis=1).astype(mx.int32)
        sender, receiver = mx.take(index, edges.senders), mx.take(index, edges.receivers)
        return sender * species.shape[1] + receiver


def unit_variance(
    species: Float[mx.array, "n_atoms n_species"],
) -> Float[mx.array, "n_atoms n_species"]:
    """One-hot vectors scaled to components of mean square one, which e3nn's layers expect."""
    return species * math.sqrt(species.shape[1])


def unit_variance_rows(n_species: int) -> np.ndarray:
    """What `unit_variance` makes of the one-hot vector of each species."""
    return np.eye(n_species) * math.sqrt(n_species)


def build_backbone(
    config: BackboneConfig, n_species: int, cutoff: float, num_neighbors: float
) -> V2106Backbone | GatePointsBackbone | NequIPBackbone:
    """The backbone that a configuration describes; arguments as of `V2106Backbone`."""
    if isinstance(config, NequIPConfig):
        return NequIPBackbone(config, n_species, cutoff, num_neighbors)
    if isinstance(config, GatePointsConfig):
        return GatePointsBackbone(config, n_species, cutoff, num_neighbors)
    return V2106Backbone(config, n_species, cutoff, num_neighbors)
