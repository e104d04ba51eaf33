"""Potentials of Nequix: ``.nqx`` files, read with numpy alone."""

from __future__ import annotations

import io
import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from mlpot.config import validate
from mlpot.models import NequIPConfig, Potential
from mlpot.models.nequip import NequIPBackbone, NequIPLayer
from mlpot.nn.normalization_constants import activation_constant

from .nequip_family import fill, from_sorted_paths, new_potential, plain_radial

_LONGEST_HEADER = 1_000_000
_SMALL = Annotated[int, Field(ge=1, le=4096)]


class _Header(BaseModel):
    """What of the first line defines the model; the rest tells of its training."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    cutoff: float = Field(gt=0)
    atomic_numbers: list[Annotated[int, Field(ge=1, le=118)]] = Field(min_length=1)
    avg_n_neighbors: float = Field(gt=0)
    scale: float = Field(gt=0)
    shift: float
    hidden_irreps: str
    lmax: int = Field(ge=0, le=11)
    n_layers: int = Field(ge=1, le=100)
    radial_basis_size: _SMALL
    radial_mlp_size: _SMALL
    radial_mlp_layers: int = Field(ge=1, le=100)
    radial_polynomial_p: float = Field(ge=2)
    index_weights: bool
    layer_norm: bool


def read_nequix(path: str | os.PathLike[str]) -> Potential:
    """The potential in a ``.nqx`` file of Nequix (Koker et al., arXiv:2508.16067).

    The file is a line of JSON, then numpy arrays back to back: isolated energies, for each layer
    the matrices of radial network, first linear map, second linear map and skip connection and the
    scales of the norm, and last the readout. What follows them is no weight.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is no such file, is damaged, or holds a variant that mlpot does not have.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"model file {str(path)!r} does not exist")
    data = path.read_bytes()
    line, newline, rest = data.partition(b"\n")
    if not newline or len(line) > _LONGEST_HEADER:
        raise ValueError(f"{str(path)!r} is no .nqx file: it does not begin with a line of JSON")
    try:
        header = json.loads(line)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(
            f"{str(path)!r} is no .nqx file: its first line is not JSON ({error})"
        ) from error
    checked = validate(header, _Header, f"the first line of {str(path)!r}")
    return _build(checked, _arrays(rest, str(path)), len(rest) // 4, str(path))


def _arrays(data: bytes, name: str) -> Iterator[np.ndarray]:
    """Arrays back to back; their declared sizes are checked before anything is allocated."""
    stream = io.BytesIO(data)
    while True:
        try:
            version = np.lib.format.read_magic(stream)
            if version != (1, 0):
                raise ValueError(f"its version is {version}")
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
        except (ValueError, SyntaxError) as error:
            raise ValueError(
                f"{name!r} ends too early or is damaged: no array where one should be ({error})"
            ) from error
        size = math.prod(shape) * dtype.itemsize
        left = len(data) - stream.tell()
        if dtype != np.dtype("<f4") or fortran or size > left:
            raise ValueError(
                f"{name!r} is damaged: an array of {dtype} with the shape {shape}, where {left} "
                "bytes of float32 are left"
            )
        yield np.frombuffer(stream.read(size), dtype=dtype).reshape(shape).astype(np.float64)


def _build(header: _Header, arrays: Iterator[np.ndarray], available: int, name: str) -> Potential:
    if header.index_weights:
        raise ValueError(f"{name!r} has skip connections by species (index_weights), unsupported")
    if not header.radial_polynomial_p.is_integer():
        raise ValueError(
            f"{name!r}: radial_polynomial_p is {header.radial_polynomial_p}, no integer"
        )
    # Species are numbered in ascending order, whatever the order in the header.
    numbers = sorted(header.atomic_numbers)
    if len(set(numbers)) != len(numbers):
        raise ValueError(f"{name!r}: an element is twice among its atomic_numbers")
    config = NequIPConfig(
        irreps=header.hidden_irreps.replace(" ", ""),
        lmax=header.lmax,
        layers=header.n_layers,
        number_of_basis=header.radial_basis_size,
        envelope_p=int(header.radial_polynomial_p),
        radial_neurons=[header.radial_mlp_size] * header.radial_mlp_layers,
        self_connection="linear",
        embedding=False,
        layer_norm=header.layer_norm,
        normalization="e3nn_jax",
    )
    potential = new_potential(
        config, numbers, header.cutoff, header.avg_n_neighbors, header.scale, available, repr(name)
    )
    network = cast(NequIPBackbone, potential.network)
    atom_energies = next(arrays)
    if atom_energies.shape != (len(numbers),):
        raise ValueError(f"{name!r}: {atom_energies.shape} energies for {len(numbers)} elements")
    weights: dict[str, np.ndarray] = {}
    for index, layer in enumerate(network.layers):
        found = _layer(layer, arrays, len(numbers) if index == 0 else None)
        weights |= {f"layers.{index}.{key}": array for key, array in found.items()}
    weights["readout.weight"] = next(arrays)
    return fill(potential, weights, atom_energies + header.shift, repr(name))


def _layer(
    layer: NequIPLayer, arrays: Iterator[np.ndarray], n_species: int | None
) -> dict[str, np.ndarray]:
    """Weights of one layer; ``n_species`` for the first one, whose input is one-hots."""

    def linear(module: Any, of_input: bool = False) -> np.ndarray:
        matrices = [next(arrays) for _ in {path.i_out for path in module.instructions}]
        flat = np.concatenate([matrix.ravel() for matrix in matrices])
        # mlpot's one-hots are of unit variance: sqrt(n_species) in place of 1.
        return flat / math.sqrt(n_species) if of_input and n_species else flat

    radial = [next(arrays) for _ in range(layer.radial.n_layers)]
    radial[-1] = from_sorted_paths(layer._messages, radial[-1])
    constant = activation_constant("silu", "e3nn_jax")
    weights = {
        f"radial.layer{i}.weight": matrix for i, matrix in enumerate(plain_radial(radial, constant))
    }
    weights["linear_1.weight"] = linear(layer.linear_1, of_input=True)
    weights["linear_2.weight"] = linear(layer.linear_2)
    weights["skip.weight"] = linear(layer.skip, of_input=True)
    if layer.norm is not None:
        scales = [next(arrays) for _ in layer.norm.irreps]
        weights["norm.weight"] = np.concatenate([scale.ravel() for scale in scales])
    return weights
