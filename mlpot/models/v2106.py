"""The v2106 backbone: e3nn's gate-points network with species, one number per atom."""

from __future__ import annotations

import math

import mlx.core as mx
import mlx.nn
from jaxtyping import Float

from mlpot import kernels, nn, o3

from .config import V2106Config
from .message_passing import MessagePassing


class V2106Backbone(mlx.nn.Module):
    """Message passing of e3nn's v2106 ``SimpleNetwork``, with species as inputs and attributes.

    Node inputs are a learned embedding of the species, node attributes the species themselves
    (one-hot). Edge attributes are harmonics Y_0..Y_lmax of the edge direction (component
    normalisation); the radial networks see ``number_of_basis`` smooth_finite functions of the
    distance, which vanish with all derivatives at the cutoff, so the energy is infinitely often
    differentiable there.

    Args:
        config: sizes.
        n_species: number of species.
        cutoff: Angstrom.
        num_neighbors: average number of neighbours within the cutoff.
    """

    #: Number of continuous derivatives of the energy at the cutoff.
    smoothness = math.inf

    def __init__(
        self, config: V2106Config, n_species: int, cutoff: float, num_neighbors: float
    ) -> None:
        super().__init__()
        self.cutoff = cutoff
        self.number_of_basis = config.number_of_basis
        self._irreps_edge_attr = o3.Irreps.spherical_harmonics(config.lmax)
        hidden = o3.Irreps(
            [(config.channels, (l, p)) for l in range(config.lmax + 1) for p in (-1, 1)]
        )
        self.embedding = o3.Linear(
            o3.Irreps([(n_species, (0, 1))]), o3.Irreps([(config.channels, (0, 1))])
        )
        self.mp = MessagePassing(
            irreps_node_sequence=[
                o3.Irreps([(config.channels, (0, 1))]),
                *[hidden] * config.layers,
                o3.Irreps("0e"),
            ],
            irreps_node_attr=o3.Irreps([(n_species, (0, 1))]),
            irreps_edge_attr=self._irreps_edge_attr,
            fc_neurons=[config.number_of_basis, *config.radial_neurons],
            num_neighbors=num_neighbors,
            alpha_start=config.alpha_start,
            normalization=config.normalization,
        )

    def __call__(
        self,
        species: Float[mx.array, "n_atoms n_species"],
        vectors: Float[mx.array, "n_edges 3"],
        edges: kernels.EdgeIndex,
    ) -> Float[mx.array, " n_atoms"]:
        """One number per atom.

        Args:
            species: (n_atoms, n_species) one-hot; a row of zeros gives zero.
            vectors: (n_edges, 3), receiver to sender, Angstrom.
            edges: sorted by receiver.

        Returns:
            (n_atoms,), dimensionless.
        """
        harmonics = o3.spherical_harmonics(
            self._irreps_edge_attr, vectors, normalize=True, normalization="component"
        )
        basis = nn.soft_one_hot_linspace(
            kernels.safe_norm(vectors),
            0.0,
            self.cutoff,
            self.number_of_basis,
            basis="smooth_finite",
            cutoff=True,
        ) * math.sqrt(self.number_of_basis)
        # One-hot vectors have one entry, so their variance is below the one that e3nn's
        # normalisation expects: this factor gives attributes of unit variance.
        scaled = species * math.sqrt(species.shape[1])
        features = self.embedding(scaled)
        return self.mp(features, scaled, edges, harmonics, basis)[:, 0]
