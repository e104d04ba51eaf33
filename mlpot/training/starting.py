"""Training that goes on from a model: the weights, cutoff and sizes of another potential."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from mlx.utils import tree_map

import mlpot.io
from mlpot import datasets, graph
from mlpot.datasets import Frame
from mlpot.elements import symbol
from mlpot.models import Potential

from .config import TrainConfig
from .new_elements import with_elements


class Start(NamedTuple):
    """What training starts from.

    Args:
        potential: with E0s that fit the training data.
        notes: what is to be said about it.
        shifts: change of its E0s, by element, eV.
    """

    potential: Potential
    notes: list[str]
    shifts: dict[int, float]


def started_potential(
    config: TrainConfig,
    train: list[Frame],
    asked: dict[int, float] | None,
    old: Sequence[int] = (),
) -> Start:
    """The model that training starts from, with E0s that fit the training data.

    Energies of another level of theory differ by a constant for each element. By default these
    are fitted to the training frames (least squares of what the model misses), so that training
    does not begin with the constants. Elements that the model does not know are added to it.

    Args:
        config: with ``start_from``.
        train: frames to train on.
        asked: E0s that the configuration gives, eV; None to fit.
        old: elements of data that are rehearsed, which it must know.

    Raises:
        FileNotFoundError: there is no such model.
        ValueError: it has another cutoff, or no room for an element that it does not know.
    """
    assert config.start_from is not None
    base = mlpot.io.load(config.start_from)
    if not np.isclose(config.r_max, base.cutoff, rtol=1e-9):
        raise ValueError(
            f"r_max is {config.r_max:g}, but {config.start_from} has the cutoff {base.cutoff:g} "
            f"Angstrom: set r_max: {base.cutoff:g}"
        )
    elements = sorted({int(z) for frame in train for z in np.unique(frame.numbers)})
    notes = []
    base.check_elements(old)
    new = sorted(set(elements) - set(base.numbers))
    before = dict(base.config.E0s)
    if new:
        base, similar = with_elements(base, new)
        notes = [
            f"{symbol(z)} is new to {config.start_from}: it begins with the weights of "
            f"{symbol(similar[z])}"
            for z in new
        ]
    E0s = dict(before)
    if asked is not None:
        E0s |= asked
    else:
        missed = _missed(base, train)
        correction = datasets.least_squares_E0s(missed, elements) if missed else {}
        E0s |= {z: E0s.get(z, 0.0) + energy for z, energy in correction.items()}
    potential = Potential(base.config.model_copy(update={"E0s": E0s}))
    potential.update(tree_map(lambda a: a, base.parameters()))
    shifts = {z: potential.config.E0s[z] - energy for z, energy in before.items()}
    return Start(potential, notes, shifts)


def _missed(base: Potential, frames: list[Frame]) -> list[Frame]:
    """Frames whose energies are what the model's differ by."""
    missed = []
    for frame in frames:
        if frame.energy is None:
            continue
        atoms = graph.build(
            frame.numbers, frame.positions, frame.cell, frame.pbc, cutoff=base.cutoff
        )
        own = np.array(base.interaction_energy(atoms))[0] + base.reference_energy(atoms)[0]
        missed.append(replace(frame, energy=frame.energy - float(own)))
    return missed
