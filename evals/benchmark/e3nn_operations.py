"""Single operations in e3nn: a function and the tensors that it is differentiated in."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from e3nn import o3
from e3nn.nn import FullyConnectedNet

from .cases import Case
from .inputs import RADIAL_CUTOFF
from .random_numbers import normal

Built = tuple[Callable[..., torch.Tensor], dict[str, torch.Tensor]]


def build(case: Case, arrays: dict[str, torch.Tensor]) -> Built:
    """The operation of a case on its arrays."""
    return _BUILDERS[case.name](case, arrays)


def _drawn(case: Case, name: str, shape, like: torch.Tensor) -> torch.Tensor:
    return torch.tensor(normal(case.seed, name, shape), device=like.device)


def _spherical_harmonics(case: Case, arrays: dict[str, torch.Tensor]) -> Built:
    degrees = list(range(case.settings["lmax"] + 1))
    module = o3.SphericalHarmonics(degrees, normalize=True, normalization="component")
    return module, arrays


def scatter(x: torch.Tensor, index: torch.Tensor, n: int) -> torch.Tensor:
    """Sum of rows, as e3nn's models do it."""
    out = x.new_zeros(n, x.shape[1])
    return out.scatter_add_(0, index.reshape(-1, 1).expand_as(x), x)


def _scatter_sum(case: Case, arrays: dict[str, torch.Tensor]) -> Built:
    index, n = arrays["index"], case.settings["segments"]
    return lambda x: scatter(x, index, n), {"x": arrays["x"]}


def _matrix_product(case: Case, arrays: dict[str, torch.Tensor]) -> Built:
    del case
    return lambda x, weight: x @ weight, arrays


def _full(case: Case, arrays: dict[str, torch.Tensor]) -> Built:
    return o3.FullTensorProduct(*case.settings["irreps"]).to(arrays["x"].device), arrays


def _fully_connected(case: Case, arrays: dict[str, torch.Tensor]) -> Built:
    module = o3.FullyConnectedTensorProduct(
        *case.settings["irreps"], internal_weights=False, shared_weights=True
    ).to(arrays["x"].device)
    weight = _drawn(case, "weight", module.weight_numel, arrays["x"])
    return module, arrays | {"weight": weight}


def _linear(case: Case, arrays: dict[str, torch.Tensor]) -> Built:
    module = o3.Linear(*case.settings["irreps"], internal_weights=False, shared_weights=True)
    weight = _drawn(case, "weight", module.weight_numel, arrays["x"])
    return module.to(arrays["x"].device), arrays | {"weight": weight}


def uvu(settings: dict) -> o3.TensorProduct:
    """The product with the harmonics, paths and outputs ordered as in the point models."""
    irreps = o3.Irreps(settings["irreps"])
    edge = o3.Irreps.spherical_harmonics(settings["lmax"])
    triples = [
        (i, j, mul, ir)
        for i, (mul, ir_in) in enumerate(irreps)
        for j, (_, ir_edge) in enumerate(edge)
        for ir in ir_in * ir_edge
        if ir in irreps
    ]
    out, place, _ = o3.Irreps([(mul, ir) for _, _, mul, ir in triples]).sort()
    paths = [(i, j, k, "uvu", True) for (i, j, _, _), k in zip(triples, place, strict=True)]
    return o3.TensorProduct(irreps, edge, out, paths, internal_weights=False, shared_weights=False)


def _weighted(case: Case, arrays: dict[str, torch.Tensor]) -> Built:
    module = uvu(case.settings).to(arrays["x"].device)
    shape = (case.settings["n"], module.weight_numel)
    return module, arrays | {"weight": _drawn(case, "weight", shape, arrays["x"])}


def _convolution(case: Case, arrays: dict[str, torch.Tensor]) -> Built:
    module = uvu(case.settings).to(arrays["x"].device)
    senders, receivers, n = arrays["senders"], arrays["receivers"], case.settings["n"]
    shape = (case.settings["edges"], module.weight_numel)
    inputs = {
        "x": arrays["x"],
        "y": arrays["y"],
        "weight": _drawn(case, "weight", shape, arrays["x"]),
    }
    return lambda x, y, weight: scatter(module(x[senders], y, weight), receivers, n), inputs


def bessel(distances: torch.Tensor, n: int) -> torch.Tensor:
    """sqrt(2/c) sin(k pi r/c) / r times the polynomial cutoff of class C2 (p = 6)."""
    u = (distances / RADIAL_CUTOFF)[:, None]
    k = torch.arange(1, n + 1, device=u.device)
    waves = math.sqrt(2 / RADIAL_CUTOFF) * torch.sin(math.pi * k * u) / distances[:, None]
    return waves * (1 - 28 * u**6 + 48 * u**7 - 21 * u**8)


def _radial_convolution(case: Case, arrays: dict[str, torch.Tensor]) -> Built:
    module = uvu(case.settings).to(arrays["x"].device)
    senders, receivers, n = arrays["senders"], arrays["receivers"], case.settings["n"]
    widths = [*case.settings["radial"], module.weight_numel]
    network = FullyConnectedNet(widths, torch.nn.functional.silu).to(arrays["x"].device)
    names = [name for name, _ in network.named_parameters()]
    drawn = {
        name: _drawn(case, name, tuple(p.shape), arrays["x"])
        for name, p in network.named_parameters()
    }

    def function(x, y, distances, *layers):
        given = dict(zip(names, layers, strict=True))
        basis = bessel(distances, widths[0])
        weight = torch.func.functional_call(network, given, (basis,))
        return scatter(module(x[senders], y, weight), receivers, n)

    inputs = {k: arrays[k] for k in ("x", "y", "distances")}
    return function, inputs | drawn


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
