"""Potentials of SevenNet: ``.pth`` checkpoints, read without PyTorch."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from mlpot import o3
from mlpot.models import NequIPConfig, Potential
from mlpot.models.nequip import NequIPBackbone, NequIPLayer

from .nequip_family import (
    coupling_signs,
    fill,
    from_sorted_paths,
    new_potential,
    skip_weights,
)
from .torch_file import read_torch

#: From this version on radial weights are stored in the order of the output blocks.
_SORTED_SINCE = (0, 11)
#: What a configuration may hold for the architecture to be the one that mlpot has.
_NEEDED: dict[str, tuple] = {
    "act_radial": ("silu",),
    "act_scalar": ({"e": "silu", "o": "tanh"},),
    "act_gate": ({"e": "silu", "o": "tanh"},),
    "self_connection_type": ("linear", "nequip"),
    "interaction_type": ("nequip",),
    "use_bias_in_linear": (False,),
    "readout_as_fcn": (False,),
    "use_modality": (False,),
    "_normalize_sph": (True,),
}
_MISSING: dict[str, Any] = {
    "interaction_type": "nequip",
    "use_bias_in_linear": False,
    "readout_as_fcn": False,
    "use_modality": False,
    "_normalize_sph": False,
    "self_connection_type": "nequip",
}


def read_sevennet(path: str | os.PathLike[str]) -> Potential:
    """The potential in a checkpoint of SevenNet (Park et al., J. Chem. Theory Comput., 2024).

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: not a checkpoint, damaged, or of a variant that mlpot does not have.
    """
    name = repr(str(path))
    content = read_torch(path)
    if not isinstance(content, dict) or not {"config", "model_state_dict"} <= set(content):
        raise ValueError(f"{name} is no checkpoint of SevenNet: it has no config and weights")
    config, state = content["config"], content["model_state_dict"]
    if not isinstance(config, dict) or not isinstance(state, dict):
        raise ValueError(f"{name} is no checkpoint of SevenNet: config or weights are no tables")
    return from_sevennet(config, state, name)


def from_sevennet(config: Mapping[str, Any], state: Mapping[str, Any], name: str) -> Potential:
    """A potential from the two parts of a checkpoint.

    Args:
        config: of SevenNet.
        state: weights by name, numpy arrays.
        name: of the source, for messages.

    Raises:
        ValueError: a variant that mlpot does not have, or weights that do not fit.
    """
    try:
        return _build(config, state, name)
    except (LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(
            f"{name} is no checkpoint of SevenNet that mlpot can read: {type(error).__name__} "
            f"{error}"
        ) from error


def _build(config: Mapping[str, Any], state: Mapping[str, Any], name: str) -> Potential:
    for key, allowed in _NEEDED.items():
        found = config.get(key, _MISSING.get(key))
        if found not in allowed:
            raise ValueError(f"{name} has {key} = {found!r}; mlpot reads models with {allowed}")
    numbers, order = _species(config)
    own = _config(config, name)
    weights = {k: np.asarray(v, dtype=np.float64) for k, v in state.items() if np.size(v)}
    scale, shifts = _energies(weights, order, name)
    n_layers = own.layers
    denominators = [float(weights[f"{t}_convolution.denominator"][0]) for t in range(n_layers)]
    # A plain divisor here, the root of a number of neighbours in mlpot.
    available = sum(array.size for array in weights.values())
    potential = new_potential(
        own, numbers, float(config["cutoff"]), denominators[0] ** 2, scale, available, name
    )
    network = cast(NequIPBackbone, potential.network)
    is_sorted = _version(config, name) >= _SORTED_SINCE
    unit = math.sqrt(len(numbers))
    # mlpot's one-hots are of unit variance: sqrt(n_species) in place of 1.
    embedding = weights["onehot_to_feature_x.linear.weight"].reshape(len(numbers), -1)[order]
    new = {
        "basis.frequencies": weights["edge_embedding.basis_function.coeffs"],
        "embedding.weight": embedding / unit,
        "readout.weight": _readout(weights),
    }
    for t, layer in enumerate(network.layers):
        found = _layer(layer, weights, f"{t}_", order, is_sorted)
        found["linear_2.weight"] = found["linear_2.weight"] * (denominators[0] / denominators[t])
        new |= {f"layers.{t}.{key}": value for key, value in found.items()}
    return fill(potential, new, shifts, name)


def _species(config: Mapping[str, Any]) -> tuple[list[int], np.ndarray]:
    """Atomic numbers, ascending, and the species of SevenNet that each of them is."""
    by_number = {int(z): int(species) for z, species in config["_type_map"].items()}
    numbers = sorted(by_number)
    return numbers, np.array([by_number[z] for z in numbers])


def _version(config: Mapping[str, Any], name: str) -> tuple[int, int]:
    parts = str(config.get("version", "")).split(".")
    if len(parts) < 2 or not (parts[0].isdigit() and parts[1].isdigit()):
        raise ValueError(f"{name} does not say which version of SevenNet wrote it")
    return int(parts[0]), int(parts[1])


def _config(config: Mapping[str, Any], name: str) -> NequIPConfig:
    layers, lmax = int(config["num_convolution_layer"]), int(config["lmax"])
    parity = "natural" if config["is_parity"] else "even"
    if any(int(config.get(key, -1)) not in (-1, lmax) for key in ("lmax_edge", "lmax_node")):
        raise ValueError(f"{name} has another lmax for edges or nodes, which mlpot does not have")
    manual = config.get("irreps_manual") or None
    if manual is None:
        parities = (-1, 1) if config["is_parity"] else (1,)
        irreps = o3.Irreps(
            [(int(config["channel"]), (l, p)) for l in range(lmax + 1) for p in parities]
        )
    else:
        first, *hidden, last = [o3.Irreps(one) for one in manual]
        irreps = hidden[0] if hidden else last
        scalars = o3.Irreps([(irreps.count("0e"), (0, 1))])
        if any(one != irreps for one in hidden) or first != scalars or last != scalars:
            raise ValueError(f"{name} has irreps {manual}, which differ from layer to layer")
    envelope = config["cutoff_function"]
    kinds: dict[str, dict[str, Any]] = {
        "XPLOR": {"envelope": "xplor", "xplor_on": envelope.get("cutoff_on")},
        "poly_cut": {"envelope": "polynomial", "envelope_p": envelope.get("poly_cut_p_value", 6)},
    }
    kind = envelope["cutoff_function_name"]
    if kind not in kinds or config["radial_basis"]["radial_basis_name"] != "bessel":
        raise ValueError(f"{name} has the radial functions {config['radial_basis']}, {envelope}")
    return NequIPConfig(
        irreps=str(irreps),
        lmax=lmax,
        layers=layers,
        parity=parity,
        number_of_basis=int(config["radial_basis"].get("bessel_basis_num", 8)),
        train_basis=True,
        radial_neurons=[int(width) for width in config["weight_nn_hidden_neurons"]],
        self_connection="linear" if config.get("self_connection_type") == "linear" else "species",
        normalization="e3nn",
        **kinds[kind],
    )


def _energies(
    weights: Mapping[str, np.ndarray], order: np.ndarray, name: str
) -> tuple[float, np.ndarray]:
    """Scale, eV, and shift of each species, eV."""
    found = [weights[f"rescale_atomic_energy.{key}"] for key in ("scale", "shift")]
    scale, shift = (
        np.full(len(order), one.item()) if one.size == 1 else one.ravel()[order] for one in found
    )
    if not np.all(scale == scale[0]):
        raise ValueError(f"{name} has a scale for each element, which mlpot does not have")
    return float(scale[0]), shift


def _readout(weights: Mapping[str, np.ndarray]) -> np.ndarray:
    """The two linear maps that read the energy, as one (in the normalisation of one)."""
    second = weights["reduce_hidden_to_energy.linear.weight"].reshape(-1, 1)
    first = weights["reduce_input_to_hidden.linear.weight"].reshape(-1, len(second))
    return first @ second / math.sqrt(len(second))


def _layer(
    layer: NequIPLayer,
    weights: Mapping[str, np.ndarray],
    prefix: str,
    order: np.ndarray,
    is_sorted: bool,
) -> dict[str, np.ndarray]:
    """Weights of one layer under mlpot's names."""
    convolution = f"{prefix}convolution."
    found = {
        f"radial.layer{i}.weight": weights[f"{convolution}weight_nn.layer{i}.weight"]
        for i in range(layer.radial.n_layers)
    }
    last = f"radial.layer{layer.radial.n_layers - 1}.weight"
    if is_sorted:
        found[last] = from_sorted_paths(layer._messages, found[last])
    else:
        found[last] = found[last] * coupling_signs(layer, weights, f"{convolution}convolution.")
    for ours, theirs in (("linear_1", "self_interaction_1"), ("linear_2", "self_interaction_2")):
        found[f"{ours}.weight"] = weights[f"{prefix}{theirs}.linear.weight"]
    intro = f"{prefix}self_connection_intro."
    kind = "linear" if isinstance(layer.skip, o3.Linear) else "fc_tensor_product"
    found["skip.weight"] = skip_weights(layer, weights[f"{intro}{kind}.weight"], order)
    return found
