"""Single operations in mlpot."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

import mlx.core as mx
import numpy as np

from mlpot import kernels, nn, o3
from mlpot.models.messages import MessageSum
from mlpot.models.radial_edges import RadialEdges, RadialEmbedding
from mlpot.models.radial_table import RadialTable

from .cases import Case
from .inputs import RADIAL_CUTOFF
from .random_numbers import normal


@dataclass(frozen=True)
class Operation:
    """A function of the arrays that it is differentiated in.

    Args:
        function: of the inputs, in their order.
        inputs: by name, in e3nn's layout.
        component_major: irreps of the inputs and of the result ("out") that mlpot has
            component-major; they are converted where no clock runs.
    """

    function: Callable[..., mx.array]
    inputs: dict[str, np.ndarray]
    component_major: dict[str, o3.Irreps] = field(default_factory=dict)

    def array(self, name: str, numbers: np.ndarray) -> mx.array:
        """Numbers in e3nn's layout as an array in mlpot's."""
        irreps = self.component_major.get(name)
        array = mx.array(numbers)
        return o3.convert_layout(array, irreps, "mul_ir", "ir_mul") if irreps else array

    def numbers(self, name: str, array: mx.array) -> np.ndarray:
        """Back: an input, the result, or the gradient in one ("d_" and its name)."""
        irreps = self.component_major.get(name.removeprefix("d_"))
        return np.array(o3.convert_layout(array, irreps, "ir_mul", "mul_ir") if irreps else array)


def build(case: Case, arrays: dict[str, np.ndarray]) -> Operation:
    """The operation of a case on its arrays."""
    return _BUILDERS[case.name](case, arrays)


def _spherical_harmonics(case: Case, arrays: dict[str, np.ndarray]) -> Operation:
    degrees = list(range(case.settings["lmax"] + 1))

    def function(vectors):
        return o3.spherical_harmonics(degrees, vectors, normalize=True, normalization="component")

    return Operation(function, {"vectors": arrays["vectors"]})


def _scatter_sum(case: Case, arrays: dict[str, np.ndarray]) -> Operation:
    index, n = mx.array(arrays["index"]), case.settings["segments"]
    return Operation(lambda x: kernels.segment_sum(x, index, n), {"x": arrays["x"]})


def _matrix_product(case: Case, arrays: dict[str, np.ndarray]) -> Operation:
    del case
    return Operation(lambda x, weight: x @ weight, arrays)


def _full(case: Case, arrays: dict[str, np.ndarray]) -> Operation:
    return Operation(o3.FullTensorProduct(*case.settings["irreps"]), arrays)


def _fully_connected(case: Case, arrays: dict[str, np.ndarray]) -> Operation:
    module = o3.FullyConnectedTensorProduct(*case.settings["irreps"], internal_weights=False)
    weight = normal(case.seed, "weight", module.weight_numel)
    return Operation(module, arrays | {"weight": weight})


def _linear(case: Case, arrays: dict[str, np.ndarray]) -> Operation:
    module = o3.Linear(*case.settings["irreps"], internal_weights=False, shared_weights=True)
    weight = normal(case.seed, "weight", module.weight_numel)
    return Operation(module, arrays | {"weight": weight})


def uvu(settings: dict) -> tuple[o3.Irreps, list]:
    """Output irreps, sorted, and instructions of the product with the harmonics, as in models."""
    irreps, edge = (
        o3.Irreps(settings["irreps"]),
        o3.Irreps.spherical_harmonics(settings["lmax"]),
    )
    triples = [
        (i, j, mul, ir)
        for i, (mul, ir_in) in enumerate(irreps)
        for j, (_, ir_edge) in enumerate(edge)
        for ir in ir_in * ir_edge
        if any(ir == other.ir for other in irreps)
    ]
    out, place, _ = o3.Irreps([(mul, ir) for _, _, mul, ir in triples]).sort()
    return out, [(i, j, k, "uvu", True) for (i, j, _, _), k in zip(triples, place, strict=True)]


def _weighted(case: Case, arrays: dict[str, np.ndarray]) -> Operation:
    settings = case.settings
    out, instructions = uvu(settings)
    edge = o3.Irreps.spherical_harmonics(settings["lmax"])
    module = o3.TensorProduct(
        settings["irreps"], edge, out, instructions, internal_weights=False, shared_weights=False
    )
    weight = normal(case.seed, "weight", (settings["n"], module.weight_numel))
    return Operation(module, arrays | {"weight": weight})


def _messages(case: Case, arrays: dict[str, np.ndarray]):
    s = case.settings
    irreps = o3.Irreps(s["irreps"])
    messages = MessageSum(irreps, o3.Irreps.spherical_harmonics(s["lmax"]), irreps)
    edges = kernels.EdgeIndex.from_pairs(arrays["senders"], arrays["receivers"], s["n"])
    return messages, edges, {"x": irreps, "out": messages.irreps_out}


def _convolution(case: Case, arrays: dict[str, np.ndarray]) -> Operation:
    messages, edges, layouts = _messages(case, arrays)
    weight = normal(case.seed, "weight", (case.settings["edges"], messages.weight_numel))
    return Operation(
        lambda x, y, weight: messages(x, y, weight, edges),
        {"x": arrays["x"], "y": arrays["y"], "weight": weight},
        layouts,
    )


def _radial_convolution(case: Case, arrays: dict[str, np.ndarray]) -> Operation:
    messages, edges, layouts = _messages(case, arrays)
    widths = [*case.settings["radial"], messages.weight_numel]
    network = nn.FullyConnectedNet(widths, "silu")
    names = [f"layer{i}" for i in range(len(widths) - 1)]
    weights = {
        f"{name}.weight": normal(case.seed, f"{name}.weight", shape)
        for name, shape in zip(names, itertools.pairwise(widths), strict=True)
    }

    def basis(distances):
        cutoff = nn.polynomial_cutoff(distances, RADIAL_CUTOFF, 6)
        return nn.bessel(distances, widths[0], RADIAL_CUTOFF) * cutoff[:, None]

    # As in the layers of models: from a table where that is faster.
    table, embedding = RadialTable(), RadialEmbedding(basis, RADIAL_CUTOFF)

    def function(x, y, distances, *layers):
        for name, weight in zip(names, layers, strict=True):
            network[name].weight = weight
        return messages(x, y, table.weights(network, RadialEdges(embedding, distances)), edges)

    inputs = {"x": arrays["x"], "y": arrays["y"], "distances": arrays["distances"]}
    return Operation(function, inputs | weights, layouts)


_BUILDERS = {
    "spherical_harmonics": _spherical_harmonics,
    "scatter_sum": _scatter_sum,
    "matrix_product": _matrix_product,
    "full_tensor_product": _full,
    "fully_connected_tensor_product": _fully_connected,
    "linear": _linear,
    "weighted_tensor_product_uvu": _weighted,
    "convolution": _convolution,
    "radial_convolution": _radial_convolution,
}
