"""From a backbone to an interatomic potential."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any

import mlx.core as mx
import mlx.nn
import numpy as np
from jaxtyping import Float
from mlx.utils import tree_flatten

from mlpot import kernels
from mlpot.elements import SYMBOLS, format_elements
from mlpot.graph import Graph

from .backbones import build_backbone
from .config import PotentialConfig
from .parameter_cache import ParameterCache
from .radial_layers import message_sums, radial_layers
from .short_features import find_feature_dtype
from .zbl import ZBL


class Potential(mlx.nn.Module):
    """Energy of atoms from a backbone network.

        e_i = E0[z_i] + scale (network_i - network(isolated atom of z_i)) + ZBL_i
        E   = sum_i e_i

    An isolated atom has exactly its E0. The interaction energy (without E0) is what the network
    computes in its own precision; E0 is summed in float64 on the host.

    Examples:
        >>> config = PotentialConfig(numbers=[1, 8], cutoff=4.5)
        >>> potential = Potential(config)

    Args:
        config: all hyperparameters.
    """

    _feature_dtype = "float32"  # by name: copies are made of potentials, not of MLX's types

    def __init__(self, config: PotentialConfig) -> None:
        super().__init__()
        self.config = config
        self.cutoff = config.cutoff
        self.network = build_backbone(
            config.model, len(self.numbers), config.cutoff, config.avg_num_neighbors
        )
        self._zbl = ZBL(self.numbers, config.cutoff) if config.zbl else None
        lookup = np.full(len(SYMBOLS), len(self.numbers), dtype=np.int32)
        lookup[self.numbers] = np.arange(len(self.numbers))
        # Padding atoms (number 0) and elements that the model does not know get a zero row.
        self._lookup = kernels.Constant(lookup)
        self._one_hot = kernels.Constant(np.eye(len(self.numbers) + 1)[:, :-1])
        nothing = np.zeros(0, dtype=np.int32)
        self._no_edges = kernels.EdgeIndex.from_pairs(nothing, nothing, len(self.numbers))
        self._E0s = np.zeros(len(SYMBOLS))
        for z, energy in config.E0s.items():
            self._E0s[z] = energy
        self._isolated = ParameterCache()
        # What follows from parameters is kept while these have numbers.
        mx.eval(self.parameters())

    @property
    def numbers(self) -> list[int]:
        """Atomic numbers of the species, ascending."""
        return list(self.config.numbers)

    @property
    def dtype(self) -> mx.Dtype:
        """Precision of the weights."""
        flat: Any = tree_flatten(self.parameters())
        return flat[0][1].dtype

    @property
    def hops(self) -> int:
        """How many edges away an atom may be whose position an atom's energy depends on."""
        return self.network.hops

    @property
    def smoothness(self) -> float:
        """How many derivatives of the energy are continuous everywhere."""
        own = self.network.smoothness
        return own if self._zbl is None else min(own, self._zbl.smoothness)

    @property
    def mirror_symmetric(self) -> bool:
        """Whether mirror images have the same energy; a few published potentials break this."""
        return self.network.mirror_symmetric

    def check_elements(self, numbers: Iterable[int]) -> None:
        """Refuse elements that the potential was not made for.

        Args:
            numbers: atomic numbers; 0 (padding) is allowed.

        Raises:
            ValueError: names the unknown elements and the known ones.
        """
        unknown = {int(z) for z in numbers} - set(self.numbers) - {0}
        if unknown:
            raise ValueError(
                f"this potential does not know {format_elements(unknown)}; it was made for "
                f"{format_elements(self.numbers)}"
            )

    def with_zbl(self) -> Potential:
        """A copy with the screened nuclear repulsion `ZBL` added; this one is not changed.

        For potentials without one, such as published ones, where atoms may come closer than any
        did in the training data. It is part of the copy: saved with it, in all derivatives.

        Raises:
            ValueError: the potential has it already.
        """
        if self.config.zbl:
            raise ValueError("the potential has the ZBL repulsion already: use it as it is")
        twin = copy.deepcopy(self)
        twin.config = self.config.model_copy(update={"zbl": True})
        twin._zbl = ZBL(self.numbers, self.cutoff)
        return twin

    def set_dtype(self, dtype: mx.Dtype, predicate: Any = None) -> None:
        """Change the precision of the weights.

        Args:
            dtype: float32 or float64 (on the CPU).
            predicate: which dtypes are changed; floating ones by default.
        """
        super().set_dtype(dtype, *(() if predicate is None else (predicate,)))
        mx.eval(self.parameters())

    @property
    def feature_dtype(self) -> mx.Dtype:
        """Number type of features and edge weights in the convolutions."""
        return find_feature_dtype(self._feature_dtype)

    def set_feature_dtype(self, dtype: str | mx.Dtype) -> None:
        """Choose the number type of features and edge weights in the convolutions.

        float16 and bfloat16 are for large systems on GPUs, whose arrays are then half as large;
        everything else stays in float32. Errors are told in docs/concepts/mlx.md. Weights in
        float64 are computed with in float64. The choice is not part of a checkpoint.

        Args:
            dtype: "float32", "float16" or "bfloat16", or that type of MLX.

        Raises:
            ValueError: another type.
        """
        found = find_feature_dtype(dtype)
        self._feature_dtype = str(found).removeprefix("mlx.core.")
        for one in message_sums(self.network):
            one.feature_dtype = self._feature_dtype

    @property
    def radial_intervals(self) -> list[int | None]:
        """Intervals of the radial table of each layer: see `RadialTable.intervals`."""
        return [layer.radial_table.intervals for layer in radial_layers(self.network)]

    def set_radial_intervals(self, intervals: Sequence[int | None]) -> None:
        """Set the intervals of the radial table of each layer.

        Raises:
            ValueError: not one number for each layer, or a negative one.
        """
        layers = radial_layers(self.network)
        if len(intervals) != len(layers) or any(n is not None and n < 0 for n in intervals):
            raise ValueError(
                f"the radial intervals are {list(intervals)}; give one number, not negative, for "
                f"each of the {len(layers)} layers"
            )
        for layer, n in zip(layers, intervals, strict=True):
            layer.radial_table.intervals = n

    def needed_radial_intervals(self) -> list[int]:
        """Intervals that the tables of the present parameters need; zeros without tables.

        Those of `radial_intervals` that suffice are kept. Parameters that change a lot need more:
        while these are traced (the gradient of a loss) `radial_intervals` are used as they are.
        """
        layers = radial_layers(self.network)
        if self.network.radial_strategy == "exact":
            return [0] * len(layers)
        radial = self.network.radial
        return [layer.radial_table.needed(layer.radial_network, radial) for layer in layers]

    def __getstate__(self) -> dict:
        """With weights in float64, which MLX pickles as float32."""
        flat: Any = tree_flatten(self.parameters())
        double = {name: np.array(array) for name, array in flat if array.dtype == mx.float64}
        return self.__dict__ | {"_double": double}

    def __setstate__(self, state: dict) -> None:
        double = state.pop("_double")
        self.__dict__.update(state)
        if double and "network" in self:  # `copy` sets the state first, and keeps float64 itself
            with mx.stream(mx.cpu):
                arrays = [(name, mx.array(x, dtype=mx.float64)) for name, x in double.items()]
                self.load_weights(arrays, strict=False)
                mx.eval(self.parameters())

    def isolated_energies(self) -> Float[mx.array, " n_species"]:
        """Output of the network for one isolated atom of each species, (n_species,)."""
        flat: Any = tree_flatten(self.network.parameters())

        def make(fixed: bool) -> mx.array:
            dtype = self.dtype
            species = self._one_hot(dtype)[: len(self.numbers)]
            energies = self.network(species, mx.zeros((0, 3), dtype=dtype), self._no_edges)
            if fixed:
                mx.eval(energies)
            return energies

        return self._isolated.get([a for _, a in flat], self.dtype, make)

    def node_energies(
        self, graph: Graph, vectors: Float[mx.array, "n_edges 3"] | None = None
    ) -> Float[mx.array, " n_atoms"]:
        """Interaction energy of each atom, without E0; zero for padding atoms.

        Args:
            graph: atoms and edges, in the precision of the weights.
            vectors: (n_edges, 3), Angstrom, in place of the graph's own: what derivatives are
                taken through.

        Returns:
            (n_atoms,), eV.
        """
        if vectors is None:
            vectors = graph.edge_vectors()
        index = self._lookup(mx.int32)[graph.numbers]
        alone = self.isolated_energies()
        species = self._one_hot(alone.dtype)[index]
        isolated = mx.concatenate([alone, mx.zeros((1,), dtype=alone.dtype)])
        energies = self.network(species, vectors, graph.edges) - kernels.gather(isolated, index)
        # Matrix products round differently in batches of different sizes, so an atom without
        # neighbours would differ from the isolated one in its last digit.
        neighbors = self._count_neighbors(graph, vectors)
        energies = mx.where(neighbors > 0, energies * self.config.scale, neighbors)
        if self._zbl is not None:
            known = mx.minimum(index, len(self.numbers) - 1)
            radial = self.network.radial_strategy
            energies = energies + self._zbl(known, vectors, graph.edges, radial)
        return energies

    def descriptors(
        self, graph: Graph, vectors: Float[mx.array, "n_edges 3"] | None = None
    ) -> Float[mx.array, "n_atoms n_descriptors"]:
        """What the network knows of each atom that rotations and reflections do not change.

        The 0e features of all hidden layers, one after the other: differentiable functions of the
        positions, smooth at the cutoff, that see further with each layer.

        Args:
            graph: atoms and edges, in the precision of the weights.
            vectors: (n_edges, 3), Angstrom, in place of the graph's own.

        Returns:
            (n_atoms, n_descriptors), dimensionless; rows of padding atoms have no meaning.
        """
        vectors = graph.edge_vectors() if vectors is None else vectors
        species = self._one_hot(self.dtype)[self._lookup(mx.int32)[graph.numbers]]
        hidden: list[tuple[Any, mx.array]] = []
        self.network(species, vectors, graph.edges, hidden)
        kept = []
        for irreps, features in hidden:
            parts = zip(irreps, irreps.slices(), strict=True)
            kept += [features[:, part] for block, part in parts if str(block.ir) == "0e"]
        return mx.concatenate(kept, axis=1)

    def _count_neighbors(
        self, graph: Graph, vectors: Float[mx.array, "n_edges 3"]
    ) -> Float[mx.array, " n_atoms"]:
        """How many neighbours each atom has within the cutoff; NaN where a distance is NaN."""
        fixed = mx.stop_gradient(vectors)
        if graph.n_edges == 0:
            return mx.zeros((graph.n_atoms,), dtype=fixed.dtype)
        squared = mx.sum(fixed * fixed, axis=-1)
        # NaN compares as false: a position that is not finite must not pass for a far one.
        near = mx.where(squared < self.cutoff**2, mx.ones_like(squared), 0.0 * squared)
        edges = graph.edges
        return kernels.segment_sum(near, edges.receivers, graph.n_atoms, edges.by_receiver)

    def interaction_energy(
        self, graph: Graph, vectors: Float[mx.array, "n_edges 3"] | None = None
    ) -> Float[mx.array, " n_graphs"]:
        """Energy of each structure without the E0 of its atoms, (n_graphs,), eV."""
        nodes = self.node_energies(graph, vectors)
        order = kernels.SegmentOrder()  # node_graph is nondecreasing
        return kernels.segment_sum(nodes, graph.node_graph, graph.n_graphs, order)

    def reference_energy(self, graph: Graph) -> Float[np.ndarray, " n_graphs"]:
        """Sum of the E0 of each structure, (n_graphs,), eV, float64 on the host."""
        return np.bincount(
            np.array(graph.node_graph),
            weights=self._E0s[np.array(graph.numbers)],
            minlength=graph.n_graphs,
        )
