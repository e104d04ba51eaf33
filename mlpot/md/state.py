"""The state of molecular dynamics as arrays on the device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import mlx.core as mx
from jaxtyping import Float

from .system import System


class Evaluation(NamedTuple):
    """What a potential tells about positions and cells.

    Args:
        energies: (n_graphs,), eV.
        forces: (n_atoms, 3), eV/Angstrom.
        stresses: (n_graphs, 3, 3), +dE/dstrain / V, eV/Angstrom^3; zero where not asked for.
        excess: scalar, Angstrom: above zero where the list of pairs may lack one, so that the
            values are not to be trusted (see `mlpot.graph.Pairs.excess`).
    """

    energies: Float[mx.array, " n_graphs"]
    forces: Float[mx.array, "n_atoms 3"]
    stresses: Float[mx.array, "n_graphs 3 3"]
    excess: mx.array


#: Energy, forces and stress at positions (n_atoms, 3) and cells (n_graphs, 3, 3).
Forces = Callable[[mx.array, mx.array], Evaluation]


@dataclass(frozen=True)
class State:
    """Everything that a step changes; all arrays.

    Lengths in Angstrom, energies in eV, masses in atomic mass units, so times in
    Angstrom sqrt(amu/eV) (`mlpot.units.FS` converts).

    Args:
        positions: (n_atoms, 3).
        velocities: (n_atoms, 3).
        cells: (n_graphs, 3, 3), rows are lattice vectors.
        kT: (n_graphs,), temperature that a bath holds, eV.
        key: of MLX's random numbers.
        energies, forces, stresses, excess: the `Evaluation` here; excess is the largest since
            it was last set back.
        extra: further variables of an integrator by name.
    """

    positions: Float[mx.array, "n_atoms 3"]
    velocities: Float[mx.array, "n_atoms 3"]
    cells: Float[mx.array, "n_graphs 3 3"]
    kT: Float[mx.array, " n_graphs"]  # noqa: N815, as in equations
    key: mx.array
    energies: Float[mx.array, " n_graphs"]
    forces: Float[mx.array, "n_atoms 3"]
    stresses: Float[mx.array, "n_graphs 3 3"]
    excess: mx.array
    extra: dict[str, mx.array] = field(default_factory=dict)

    def arrays(self) -> dict[str, mx.array]:
        """All arrays by name; further variables as ``extra.NAME``."""
        own = {name: getattr(self, name) for name in _OWN}
        return own | {f"extra.{name}": array for name, array in self.extra.items()}

    @classmethod
    def from_arrays(cls, arrays: dict[str, mx.array]) -> State:
        """The inverse of `arrays`."""
        prefix = "extra."
        extra = {k[len(prefix) :]: v for k, v in arrays.items() if k.startswith(prefix)}
        return cls(**{name: arrays[name] for name in _OWN}, extra=extra)

    def evaluated(self, forces: Forces) -> State:
        """With energy, forces and stress of its positions."""
        found = forces(self.positions, self.cells)
        return replace(
            self,
            energies=found.energies,
            forces=found.forces,
            stresses=found.stresses,
            excess=mx.maximum(self.excess, found.excess),
        )

    def with_extra(self, **extra: mx.array) -> State:
        """With some further variables replaced."""
        return replace(self, extra=self.extra | extra)


_OWN = (
    *("positions", "velocities", "cells", "kT", "key"),
    *("energies", "forces", "stresses", "excess"),
)


class Integrator(NamedTuple):
    """Pure functions that advance a state.

    Args:
        init: ``init(state, forces) -> State``: evaluates the state and adds the integrator's own
            variables (those that are there already are kept, so a state can be handed on).
        step: ``step(state, forces) -> State``: one time step.
        conserved: ``conserved(state) -> (n_graphs,)``: what an exact integration would hold
            constant, eV.
        stress: whether steps need stresses; others must leave the cells alone.
    """

    init: Callable[[State, Forces], State]
    step: Callable[[State, Forces], State]
    conserved: Callable[[State], mx.array]
    stress: bool = False


def initial_state(
    system: System, positions, velocities, cells=None, *, kT=0.0, seed: int = 0
) -> State:
    """A state before its first evaluation.

    Args:
        system: what moves.
        positions: (n_atoms, 3), Angstrom.
        velocities: (n_atoms, 3), Angstrom per Angstrom sqrt(amu/eV).
        cells: (3, 3) or (n_graphs, 3, 3), Angstrom; zero by default.
        kT: eV, one for all structures or one each.
        seed: of the random numbers.

    Returns:
        A state whose energies and forces are zero until an integrator's ``init``.

    Raises:
        ValueError: a shape that does not fit.
    """
    import numpy as np

    n_atoms, n_graphs = system.n_atoms, system.n_graphs
    xyz, speeds = np.asarray(positions, np.float64), np.asarray(velocities, np.float64)
    for name, array in (("positions", xyz), ("velocities", speeds)):
        if array.shape != (n_atoms, 3):
            raise ValueError(f"{name} have shape {array.shape}; expected ({n_atoms}, 3)")
    rows = np.zeros((n_graphs, 3, 3)) if cells is None else np.asarray(cells, np.float64)
    rows = np.broadcast_to(rows, (n_graphs, 3, 3))

    def real(array) -> mx.array:
        return mx.array(np.ascontiguousarray(array), dtype=system.dtype)

    return State(
        positions=real(xyz),
        velocities=system.constrain(real(speeds)),
        cells=real(rows),
        kT=real(np.broadcast_to(np.asarray(kT, np.float64), (n_graphs,))),
        key=mx.random.key(seed),
        energies=mx.zeros((n_graphs,), dtype=system.dtype),
        forces=mx.zeros((n_atoms, 3), dtype=system.dtype),
        stresses=mx.zeros((n_graphs, 3, 3), dtype=system.dtype),
        excess=mx.array(-1.0, dtype=system.dtype),
    )
