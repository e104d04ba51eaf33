"""Potentials of NequIP 0.5, from the tensors of a deployed model in an ``.npz`` file.

A deployed model is a TorchScript program, which needs PyTorch to be opened. Three lines of it
write the file that mlpot reads:

    extra = {"config": ""}
    model = torch.jit.load("deployed.pth", map_location="cpu", _extra_files=extra)
    np.savez("nequip.npz", config=extra["config"],
             **{k: v.numpy() for k, v in model.state_dict().items()})
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np

from mlpot import o3
from mlpot.config import parse_foreign_yaml
from mlpot.elements import atomic_number
from mlpot.models import NequIPConfig, NequIPLayer, Potential
from mlpot.models.nequip import NequIPBackbone

from .nequip_family import coupling_signs, fill, new_potential, skip_weights
from .safe_npz import read_npz

_ACTIVATIONS = {"e": "silu", "o": "tanh"}


def read_nequip(path: str | os.PathLike[str]) -> Potential:
    """The potential whose tensors and configuration an ``.npz`` file holds.

    The configuration is the entry ``config``, text in YAML; where there is none, the file
    ``config.yaml`` beside it.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: damaged, not of NequIP 0.5, or of a variant that mlpot does not have.
    """
    path = Path(path)
    arrays = read_npz(path)
    name = repr(str(path))
    if "config" in arrays:
        text = str(arrays.pop("config"))
    else:
        beside = path.with_name("config.yaml")
        if not beside.is_file():
            raise ValueError(
                f"{name} has no entry config and no config.yaml beside it: write it with the lines "
                "in the documentation of mlpot.io.nequip_npz"
            )
        text = beside.read_text(encoding="utf-8")
    config = parse_foreign_yaml(text, f"the configuration of {name}")
    try:
        return _build(config, arrays, name)
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError(
            f"{name} is no model of NequIP 0.5 that mlpot can read: {type(error).__name__} {error}"
        ) from error


def _build(config: Mapping[str, Any], arrays: Mapping[str, np.ndarray], name: str) -> Potential:
    for key, wanted in (
        ("nonlinearity_type", "gate"),
        ("nonlinearity_gates", _ACTIVATIONS),
        ("nonlinearity_scalars", _ACTIVATIONS),
        ("use_sc", True),
        ("resnet", False),
    ):
        if config.get(key, wanted) != wanted:
            raise ValueError(f"{name} has {key} = {config[key]!r}; mlpot has {wanted!r} only")
    types = config["chemical_symbol_to_type"]
    by_number = {atomic_number(symbol): int(index) for symbol, index in types.items()}
    numbers = sorted(by_number)
    order = np.array([by_number[z] for z in numbers])
    own = _config(config, name)
    marks = ("model.func.", "model.", "func.")
    weights = {}
    for key, array in arrays.items():
        short = next((key.removeprefix(mark) for mark in marks if key.startswith(mark)), key)
        weights[short] = array.astype(np.float64)
    potential = new_potential(
        own,
        numbers,
        float(config["r_max"]),
        float(config["avg_num_neighbors"]),
        _scale(weights, name),
        sum(array.size for array in weights.values()),
        name,
    )
    network = cast(NequIPBackbone, potential.network)
    embedding = weights["chemical_embedding.linear.weight"].reshape(len(numbers), -1)[order]
    first = weights["conv_to_output_hidden.linear.weight"]
    second = weights["output_hidden_to_scalar.linear.weight"].reshape(-1, 1)
    new = {
        "embedding.weight": embedding / math.sqrt(len(numbers)),
        "readout.weight": first.reshape(-1, len(second)) @ second / math.sqrt(len(second)),
    }
    if own.train_basis:
        # Stored times the cutoff.
        roots = weights["radial_basis.basis.bessel_weights"]
        new["basis.frequencies"] = roots / potential.cutoff
    for t, layer in enumerate(network.layers):
        prefix = f"layer{t}_convnet.conv."
        if t == own.layers - 1:
            found = _last_layer(layer, network, own, weights, prefix, order)
        else:
            found = _layer(layer, weights, prefix, order)
        new |= {f"layers.{t}.{key}": value for key, value in found.items()}
    return fill(potential, new, _shifts(weights, order), name)


def _config(config: Mapping[str, Any], name: str) -> NequIPConfig:
    irreps = config.get("feature_irreps_hidden")
    lmax, parity = int(config["l_max"]), bool(config.get("parity", True))
    if irreps is None:
        channels = int(config["num_features"])
        irreps = str(
            o3.Irreps(
                [(channels, (l, p)) for p in ((1, -1) if parity else (1,)) for l in range(lmax + 1)]
            )
        )
    scalars = o3.Irreps(irreps).count("0e")
    if o3.Irreps(config.get("chemical_embedding_irreps_out", f"{scalars}x0e")).dim != scalars:
        raise ValueError(f"{name} begins with another number of channels than its layers have")
    return NequIPConfig(
        irreps=irreps,
        lmax=lmax,
        layers=int(config["num_layers"]),
        parity="both" if parity else "even",
        number_of_basis=int(config.get("num_basis", 8)),
        train_basis=bool(config.get("BesselBasis_trainable", True)),
        envelope_p=int(config.get("PolynomialCutoff_p", 6)),
        radial_neurons=[int(config["invariant_neurons"])] * int(config["invariant_layers"]),
        self_connection="species",
        normalization="e3nn",
    )


def _scale(weights: Mapping[str, np.ndarray], name: str) -> float:
    scales = weights.get("per_species_rescale.scales", np.ones(1)).ravel()
    if not np.all(scales == scales[0]):
        raise ValueError(f"{name} has a scale for each element, which mlpot does not have")
    return float(weights.get("scale_by", np.ones(())) * scales[0])


def _shifts(weights: Mapping[str, np.ndarray], order: np.ndarray) -> np.ndarray:
    """What each atom has beyond the network's energy, eV, (n_species,)."""
    own = np.zeros(len(order))
    if "per_species_rescale.shifts" in weights:
        own = np.broadcast_to(weights["per_species_rescale.shifts"].ravel(), own.shape)[order]
    whole = float(weights.get("scale_by", np.ones(()))) * own
    return whole + float(weights.get("shift_by", np.zeros(())))


def _layer(
    layer: NequIPLayer, weights: Mapping[str, np.ndarray], prefix: str, order: np.ndarray
) -> dict[str, np.ndarray]:
    """Weights of one layer under mlpot's names."""
    n = layer.radial.n_layers
    found = {f"radial.layer{i}.weight": weights[f"{prefix}fc.layer{i}.weight"] for i in range(n)}
    signs = coupling_signs(layer, weights, f"{prefix}tp.")
    found[f"radial.layer{n - 1}.weight"] = found[f"radial.layer{n - 1}.weight"] * signs
    found["linear_1.weight"] = weights[f"{prefix}linear_1.weight"]
    found["linear_2.weight"] = weights[f"{prefix}linear_2.weight"]
    found["skip.weight"] = skip_weights(layer, weights[f"{prefix}sc.weight"], order)
    return found


def _last_layer(
    layer: NequIPLayer,
    network: NequIPBackbone,
    config: NequIPConfig,
    weights: Mapping[str, np.ndarray],
    prefix: str,
    order: np.ndarray,
) -> dict[str, np.ndarray]:
    """Of NequIP's last layer, which has all irreps, what its invariant scalars depend on."""
    whole = NequIPLayer(
        layer.linear_1.irreps_in, config.irreps_hidden(), config.irreps_harmonics(), len(order),
        config, 1.0,
    )  # fmt: skip
    found = _layer(whole, weights, prefix, order)
    messages, invariant = whole._messages, o3.Irrep("0e")
    kept = np.concatenate(
        [
            np.full(whole.linear_1.irreps_in[i].mul, messages.irreps_out[k].ir == invariant)
            for i, _, k in messages.paths
        ]
    )
    last = f"radial.layer{whole.radial.n_layers - 1}.weight"
    found[last] = found[last][:, kept]
    width = layer.irreps_out.dim
    # Of the block 0e that goes into the gate the scalars are the first, gates follow.
    for key, module in (("linear_2", whole.linear_2), ("skip", whole.skip)):
        pieces, start = [], 0
        for instruction in module.instructions:
            size = math.prod(instruction.path_shape)
            piece = found[f"{key}.weight"][start : start + size].reshape(instruction.path_shape)
            if module.irreps_out[instruction.i_out].ir == invariant:
                pieces.append(piece[..., :width].ravel())
            start += size
        found[f"{key}.weight"] = np.concatenate(pieces)
    return found
