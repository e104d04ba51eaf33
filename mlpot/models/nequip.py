"""The NequIP family: one network for NequIP 0.5, Nequix and SevenNet (Batzner et al., 2022)."""

from __future__ import annotations

import math

import mlx.core as mx
import mlx.nn
import numpy as np
from jaxtyping import Float

from mlpot import kernels, nn, o3

from .message_passing import gate_for
from .messages import MessageSum
from .nequip_config import NequIPConfig
from .point_networks import harmonics
from .radial_edges import RadialEdges, RadialEmbedding
from .radial_strategy import Strategy
from .radial_table import RadialTable

#: Edges up to which radial networks are evaluated together on GPUs, which then wait for the host;
#: with more the arrays of all layers would be in memory at once.
FEW_EDGES = 2**16


def scalars(n: int) -> o3.Irreps:
    """n x 0e."""
    return o3.Irreps([(n, (0, 1))])


class RadialBasis(mlx.nn.Module):
    """Functions of the edge length that vanish at the cutoff.

        b_n(r) = (2 / r_c) sin(w_n r) / r  envelope(r),   w_n = n pi / r_c unless trained

    Args:
        config: number of functions, whether they are trained, envelope.
        cutoff: r_c, Angstrom.
    """

    def __init__(self, config: NequIPConfig, cutoff: float) -> None:
        super().__init__()
        self.cutoff = cutoff
        self.envelope = config.envelope
        self.envelope_p = config.envelope_p
        self.xplor_on = config.xplor_on
        roots = np.arange(1, config.number_of_basis + 1) * (math.pi / cutoff)
        if config.train_basis:
            self.frequencies = mx.array(roots, dtype=mx.float32)
        else:
            self._frequencies = kernels.Constant(roots)
        #: What there are kernels for.
        self._spec = None
        if not config.train_basis and config.envelope == "polynomial":
            self._spec = kernels.BesselSpec(cutoff, config.number_of_basis, config.envelope_p)

    def __call__(self, length: Float[mx.array, " n_edges"]) -> Float[mx.array, "n_edges n_basis"]:
        """Values of all functions at edge lengths in Angstrom, (n_edges, number_of_basis)."""
        if self._spec is None:
            return self._by_mlx(length)
        return kernels.bessel_basis(self._spec, length, self._by_mlx)

    def _by_mlx(self, length: mx.array) -> mx.array:
        trained = "frequencies" in self
        dtype = length.dtype
        frequencies = self.frequencies.astype(dtype) if trained else self._frequencies(dtype)
        values = nn.sine_bessel(length, frequencies, 2.0 / self.cutoff)
        if self.envelope == "xplor":
            assert self.xplor_on is not None
            envelope = nn.xplor_cutoff(length, self.xplor_on, self.cutoff)
        else:
            envelope = nn.polynomial_cutoff(length, self.cutoff, self.envelope_p)
        return values * envelope[:, None]


class RMSLayerNorm(mlx.nn.Module):
    """Features over their size, with the degrees balanced; no centring.

        out = gamma x / sqrt(s + 1e-12)
        s   = 1 / n_blocks  sum_b 1 / (2 l_b + 1)^2  sum_{m, u} x_b[m, u]^2

    with one gamma per channel (Nequix, Koker et al., arXiv:2508.16067).

    Args:
        irreps: of the features, which are component-major.
    """

    _epsilon = 1e-12

    def __init__(self, irreps: o3.Irreps) -> None:
        super().__init__()
        self.irreps = irreps
        self.weight = mx.ones((irreps.num_irreps,))
        shares, channels, first = [np.zeros(0)], [np.zeros(0, dtype=np.int64)], 0
        for mul, ir in irreps:
            shares.append(np.full(mul * ir.dim, 1.0 / (len(irreps) * ir.dim**2)))
            channels.append(np.tile(np.arange(first, first + mul), ir.dim))
            first += mul
        #: Of each column: its share of s, and its channel.
        self._shares = kernels.Constant(np.concatenate(shares))
        self._channels = kernels.Constant(np.concatenate(channels))

    def __call__(self, features: Float[mx.array, "n dim"]) -> Float[mx.array, "n dim"]:
        """Normalised features, (n, irreps.dim)."""
        shares = self._shares(features.dtype)
        square = mx.sum(features * features * shares, axis=1, keepdims=True)
        gamma = kernels.gather(self.weight, self._channels(mx.int32))
        return features * (gamma * mx.rsqrt(square + self._epsilon))


class NequIPLayer(mlx.nn.Module):
    """One interaction of the family.

        out = gate(norm(skip(h) + linear_2(sum_e (linear_1 h)[sender] x Y; radial(b)) / sqrt(N)))

    with the uvu product over every path whose irrep occurs in the layer's output.

    Args:
        irreps_in: of the features h.
        irreps_hidden: wanted of the output; those that cannot be reached are left out.
        irreps_harmonics: of Y.
        n_species: number of species.
        config: what the layer is made of.
        num_neighbors: N, average number of neighbours within the cutoff.
    """

    def __init__(
        self,
        irreps_in: o3.Irreps,
        irreps_hidden: o3.Irreps,
        irreps_harmonics: o3.Irreps,
        n_species: int,
        config: NequIPConfig,
        num_neighbors: float,
    ) -> None:
        super().__init__()
        self.gate = gate_for(
            irreps_in, irreps_harmonics, irreps_hidden, config.normalization, even_gate="silu"
        )
        mixed = self.gate.irreps_in
        self._messages = MessageSum(
            irreps_in, irreps_harmonics, mixed, scale=1.0 / math.sqrt(num_neighbors)
        )
        self.skip: o3.FullyConnectedTensorProduct | o3.Linear
        if config.self_connection == "species":
            self.skip = o3.FullyConnectedTensorProduct(
                irreps_in, scalars(n_species), mixed, layout="ir_mul"
            )
        else:
            self.skip = o3.Linear(irreps_in, mixed, layout="ir_mul")
        self.linear_1 = o3.Linear(irreps_in, irreps_in, layout="ir_mul")
        self.radial = nn.FullyConnectedNet(
            [config.number_of_basis, *config.radial_neurons, self._messages.weight_numel],
            "silu",
            variance_in=config.basis_scale**-2,
            normalization=config.normalization,
        )
        self.radial_table = RadialTable()
        self.linear_2 = o3.Linear(self._messages.irreps_out, mixed, layout="ir_mul")
        self.norm = RMSLayerNorm(mixed) if config.layer_norm else None
        self.irreps_out = self.gate.irreps_out

    @property
    def radial_network(self) -> nn.FullyConnectedNet:
        """What makes edge weights of the basis functions."""
        return self.radial

    def __call__(
        self,
        features: Float[mx.array, "n_atoms dim_in"],
        species: Float[mx.array, "n_atoms n_species"],
        edges: kernels.EdgeIndex,
        edge_harmonics: Float[mx.array, "n_edges dim_edge"],
        basis: Float[mx.array, "n_edges n_basis"] | RadialEdges,
    ) -> Float[mx.array, "n_atoms dim_out"]:
        """Component-major features, (n_atoms, irreps_out.dim)."""
        skip = self.skip
        own = skip(features) if isinstance(skip, o3.Linear) else skip(features, species)
        weights = self.radial_table.weights(self.radial, basis)
        summed = self._messages(self.linear_1(features), edge_harmonics, weights, edges)
        mixed = own + self.linear_2(summed)
        if self.norm is not None:
            mixed = self.norm(mixed)
        return self.gate(mixed)


class NequIPBackbone(mlx.nn.Module):
    """Species and edge vectors in, one number per atom out, by `NequIPLayer` after layer.

    The first features are a linear map of the species or the species themselves; the last layer
    has scalars only, from which a linear map reads the result.

    Args:
        config: sizes and variant.
        n_species: number of species.
        cutoff: Angstrom.
        num_neighbors: average number of neighbours within the cutoff.

    Raises:
        ValueError: the configuration does not fit together.
    """

    def __init__(
        self, config: NequIPConfig, n_species: int, cutoff: float, num_neighbors: float
    ) -> None:
        super().__init__()
        config.check_cutoff(cutoff)
        self.basis = RadialBasis(config, cutoff)
        self.radial_strategy: Strategy = config.radial
        self.radial = RadialEmbedding(
            self._functions,
            cutoff,
            breakpoints=(config.xplor_on,) if config.xplor_on else (),
            parameters=self._trained,
        )
        self._harmonics = config.irreps_harmonics()
        hidden = config.irreps_hidden()
        invariant = scalars(hidden.count("0e"))
        irreps = invariant if config.embedding else scalars(n_species)
        self.embedding = o3.Linear(scalars(n_species), irreps) if config.embedding else None
        self.layers = []
        for index in range(config.layers):
            last = index == config.layers - 1
            layer = NequIPLayer(
                irreps,
                invariant if last else hidden,
                self._harmonics,
                n_species,
                config,
                num_neighbors,
            )
            self.layers.append(layer)
            irreps = layer.irreps_out
        self.readout = o3.Linear(irreps, scalars(1))
        # XPLOR is of class C1 where it begins and where it ends; the polynomial C2 at its end.
        self.smoothness = 1 if config.envelope == "xplor" else 2
        self.mirror_symmetric = config.parity != "even"

    @property
    def hops(self) -> int:
        """As of `V2106Backbone`."""
        return len(self.layers)

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
            hidden: features of the layers are added to it, as (irreps, features),
                component-major.

        Returns:
            (n_atoms,), dimensionless.
        """
        attributes = species * math.sqrt(species.shape[1])
        features = attributes if self.embedding is None else self.embedding(attributes)
        edge_harmonics = harmonics(self._harmonics, vectors)
        basis = RadialEdges(
            self.radial,
            kernels.lengths(vectors),
            self.radial_strategy,
            networks=self._together(vectors.shape[0]),
        )
        for layer in self.layers:
            features = layer(features, attributes, edges, edge_harmonics, basis)
            if hidden is not None:
                hidden.append((layer.irreps_out, features))
        return self.readout(features)[:, 0]

    def _together(self, n_edges: int) -> list[nn.FullyConnectedNet]:
        """Radial networks to evaluate together: few launches for few edges on GPUs."""
        networks = [layer.radial for layer in self.layers]
        on_gpu = mx.default_device().type == mx.DeviceType.gpu
        if not on_gpu or not 0 < n_edges <= FEW_EDGES or networks[0].n_layers < 2:
            return []
        alike = [network for network in networks if networks[0].alike(network)]
        return alike if len(alike) > 1 else []

    def _functions(self, length: Float[mx.array, " n"]) -> Float[mx.array, "n n_basis"]:
        return self.basis(length)

    def _trained(self) -> list[mx.array]:
        return [self.basis.frequencies] if "frequencies" in self.basis else []
