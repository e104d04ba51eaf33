"""Potentials of the NequIP family from weights of other programs, permuted and scaled once."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten, tree_unflatten

from mlpot import o3
from mlpot.models import NequIPConfig, NequIPLayer, Potential, PotentialConfig
from mlpot.models.messages import MessageSum


def new_potential(
    config: NequIPConfig,
    numbers: Sequence[int],
    cutoff: float,
    num_neighbors: float,
    scale: float,
    available: int,
    name: str,
) -> Potential:
    """A potential of that architecture, whose weights `fill` replaces.

    Args:
        config: sizes and variant.
        numbers: atomic numbers, ascending.
        cutoff: Angstrom.
        num_neighbors: what sums of messages are divided by, squared.
        scale: eV.
        available: how many numbers the source holds: nothing larger is made.
        name: of the source, for messages.

    Raises:
        ValueError: the sizes do not fit together, or the source is too small for them.
    """
    least = _least_weights(config)
    if least > available:
        raise ValueError(
            f"{name}: the sizes ({config.irreps}, {config.layers} layers, radial networks "
            f"{config.radial_neurons}) need at least {least} weights, too large for a file of "
            f"{available} numbers: it may be damaged"
        )
    return Potential(
        PotentialConfig(
            numbers=list(numbers),
            cutoff=cutoff,
            model=config,
            scale=scale,
            avg_num_neighbors=num_neighbors,
            zbl=False,
        )
    )


def _least_weights(config: NequIPConfig) -> int:
    """A lower bound of the number of weights, from products of widths alone."""
    squares = [block.mul**2 for block in config.irreps_hidden()]
    widths = [config.number_of_basis, *config.radial_neurons]
    radial = sum(a * b for a, b in itertools.pairwise(widths))
    return config.layers * (max(squares) + radial) - max(squares)


def fill(
    potential: Potential, weights: Mapping[str, np.ndarray], shifts: np.ndarray, name: str
) -> Potential:
    """The potential with these weights and with the energies that they give isolated atoms.

    Other programs add a shift to what the network gives, for an isolated atom too:

        E_i = shift[z_i] + scale network_i

    Here E0 is the energy of the isolated atom, E0 = shift + scale network(isolated), and the
    network's part is subtracted again: the same energies, with E0 summed in float64.

    Args:
        potential: of `new_potential`.
        weights: by name, without the leading ``network.``, of any shape of the right size.
        shifts: (n_species,), eV.
        name: of the source, for messages.

    Raises:
        ValueError: a weight is missing, unknown, of another size or not finite.
    """
    flat: Any = tree_flatten(potential.parameters())
    wanted = dict(flat)
    given = {f"network.{key}": array for key, array in weights.items()}
    if set(given) != set(wanted):
        missing, unknown = sorted(set(wanted) - set(given)), sorted(set(given) - set(wanted))
        raise ValueError(f"{name}: missing weights {missing}, unknown ones {unknown}")
    arrays = []
    for key, array in given.items():
        if array.size != wanted[key].size:
            raise ValueError(
                f"{name}: {key} has {array.size} numbers in the shape {array.shape}, the model "
                f"needs {wanted[key].shape}"
            )
        rounded = array.astype(np.float32).reshape(wanted[key].shape)
        if not np.all(np.isfinite(rounded)):
            raise ValueError(f"{name}: {key} is not finite; use another copy")
        arrays.append((key, mx.array(rounded)))
    if not np.all(np.isfinite(shifts)):
        raise ValueError(f"{name}: the shifts of the energies are not finite; use another copy")
    potential.update(tree_unflatten(arrays))
    with mx.stream(mx.cpu):
        potential.set_dtype(mx.float64)
        alone = np.array(potential.isolated_energies())
    E0s = shifts + potential.config.scale * alone
    energies = dict(zip(potential.numbers, E0s.tolist(), strict=True))
    complete = Potential(potential.config.model_copy(update={"E0s": energies}))
    complete.update(tree_unflatten(arrays))
    mx.eval(complete.parameters())
    return complete


def from_sorted_paths(messages: MessageSum, columns: np.ndarray) -> np.ndarray:
    """Radial weights whose paths are in the order of their output blocks, in mlpot's order.

    Args:
        messages: the layer's sum of messages.
        columns: (..., weight_numel), the columns path by path in the order of the output blocks.
    """
    widths = [messages.irreps_out[k].mul for _, _, k in messages.paths]
    order = np.argsort([k for _, _, k in messages.paths], kind="stable")
    ends = np.cumsum([widths[p] for p in order])
    pieces: dict[int, np.ndarray] = {}
    for p, end in zip(order, ends, strict=True):
        pieces[int(p)] = columns[..., end - widths[p] : end]
    return np.concatenate([pieces[p] for p in range(len(widths))], axis=-1)


def plain_radial(matrices: Sequence[np.ndarray], constant: float) -> list[np.ndarray]:
    """Matrices of a plain perceptron, h <- f(h W), for one that normalises.

    mlpot's radial networks compute h <- k f(h W / sqrt(fan_in)); the factors go into the
    matrices.

    Args:
        matrices: (fan_in, fan_out) each, first to last.
        constant: k.
    """
    return [
        matrix * (np.sqrt(matrix.shape[0]) / (constant if index else 1.0))
        for index, matrix in enumerate(matrices)
    ]


def skip_weights(layer: NequIPLayer, flat: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Weights of a self connection, whose species were plain one-hots in another order.

    Args:
        layer: in mlpot, where one-hots are of unit variance.
        flat: of the source, in e3nn's order.
        order: (n_species,), which species of the source each one is.
    """
    if isinstance(layer.skip, o3.Linear):
        return flat
    pieces, start = [], 0
    for instruction in layer.skip.instructions:
        size = math.prod(instruction.path_shape)
        piece = flat[start : start + size].reshape(instruction.path_shape)
        pieces.append(piece[:, order, :].ravel() / math.sqrt(len(order)))
        start += size
    return np.concatenate(pieces)


def coupling_signs(
    layer: NequIPLayer, weights: Mapping[str, np.ndarray], prefix: str
) -> np.ndarray:
    """-1 for radial weights of paths whose coupling had the other sign in the source's e3nn.

    Old versions of e3nn had other signs; checkpoints hold the coefficients they were made with.

    Args:
        layer: in mlpot.
        weights: of the source, by name.
        prefix: of the source's tensor product.

    Returns:
        (weight_numel,), 1 or -1.
    """
    messages, signs = layer._messages, []
    for i, j, k in messages.paths:
        block = layer.linear_1.irreps_in[i]
        degrees = (block.ir.l, j, messages.irreps_out[k].ir.l)
        key = f"{prefix}_compiled_main_left_right._w3j_{'_'.join(map(str, degrees))}"
        sign = 1.0
        if key in weights:
            sign = float(np.sign(np.sum(weights[key] * o3.wigner_3j_numpy(*degrees))))
        signs.append(np.full(block.mul, sign))
    return np.concatenate(signs)
