"""Relaxation of many structures in one batch."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import mlx.core as mx
import numpy as np
from ase import Atoms
from ase.calculators.singlepoint import SinglePointCalculator
from rich.console import Console

from mlpot._signals import SignalWatch
from mlpot.calculators import MLPotCalculator
from mlpot.graph import StructureError, neighbor_list
from mlpot.md import State, System, fire, initial_state
from mlpot.md.ase_bridge import fixed_atoms
from mlpot.md.engine import Engine, make_pairs
from mlpot.models import Potential

from .checks import check_count, check_positive
from .precision import check_elements
from .relaxation import RelaxationReport
from .stopping import Stopped

#: Steps between two looks at which structures are done.
_BLOCK = 10
#: A batch is made anew, without those that are done, when they are this part of it.
_DONE_PART = 0.2


def relax_batch(
    structures: Sequence[Atoms],
    calc: MLPotCalculator | Potential,
    fmax: float = 1e-3,
    steps: int = 1000,
    console: Console | None = None,
) -> list[tuple[Atoms, RelaxationReport]]:
    """Move the atoms of many structures to the nearest minima, all at once; cells are kept.

    FIRE (`mlpot.md.fire`) with a time step for each structure. Those that have converged stand
    still and drop out of the batch, so what is left gets cheaper.

    Args:
        structures: with their own cells and periodicity; not changed. ``FixAtoms`` is kept, other
            constraints are refused.
        calc: calculator with one potential, or the potential; its precision is used. A potential
            in float32 cannot go far below fmax 1e-3.
        fmax: goal: largest force on an atom that may move, eV/Angstrom.
        steps: at most so many.
        console: where progress is shown; nowhere by default.

    Returns:
        For each structure, in order, the relaxed one with its energy and forces, and a report.

    Raises:
        ValueError: no structures, bad arguments, unknown elements, or energies that are not
            finite.
        Stopped: SIGINT or SIGTERM came; ``reached`` is what would be returned.
    """
    potential = _one_potential(calc)
    if not structures:
        raise ValueError("there are no structures to relax")
    check_positive("eV/Angstrom", fmax=fmax)
    check_count("steps", steps)
    for number, atoms in enumerate(structures):
        try:
            _check(atoms, calc, potential)
        except ValueError as error:
            raise ValueError(f"structure {number}: {error}") from error
    double = potential.dtype == mx.float64
    with mx.stream(mx.cpu) if double else contextlib.nullcontext():
        batch = _Batch(structures, potential, fmax)
        show = contextlib.nullcontext() if console is None else console.status("relaxing")
        with show as status, SignalWatch() as watch:
            while batch.going and batch.steps < steps and not watch.received:
                batch.advance(min(_BLOCK, steps - batch.steps))
                if status is not None:
                    status.update(
                        f"relaxing: step {batch.steps} of at most {steps}, "
                        f"{len(batch.going)} of {len(structures)} structures left"
                    )
        batch.finish_rest()
    found = [batch.finished[k] for k in range(len(structures))]
    if watch.received:
        raise Stopped(watch.received, found)
    return found


def _check(atoms: Atoms, calc: MLPotCalculator | Potential, potential: Potential) -> None:
    """Refuse what cannot be relaxed, before it is one of many."""
    if len(atoms) == 0:
        raise ValueError("it has no atoms")
    check_elements(atoms, calc)
    potential.check_elements({int(z) for z in atoms.numbers})
    neighbor_list(atoms.positions, np.array(atoms.cell), atoms.pbc, potential.cutoff)
    if _fixed_atoms(atoms).all():
        raise ValueError("all of its atoms are fixed: there is nothing to relax")


def _one_potential(calc: MLPotCalculator | Potential) -> Potential:
    if isinstance(calc, Potential):
        return calc
    if len(calc.members) != 1:
        raise ValueError(
            f"the calculator is a committee of {len(calc.members)}: relax with one of its models"
        )
    return calc.potential


@dataclass
class _Batch:
    """Structures that are not done yet, side by side.

    Args:
        structures: all of them.
        potential: the model.
        fmax: eV/Angstrom.
    """

    structures: Sequence[Atoms]
    potential: Potential
    fmax: float
    steps: int = 0
    going: list[int] = field(default_factory=list)
    finished: dict[int, tuple[Atoms, RelaxationReport]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.going = list(range(len(self.structures)))
        self._fixed = [_fixed_atoms(atoms) for atoms in self.structures]
        self._begin([atoms.positions for atoms in self.structures], {})
        self._drop()

    def _begin(self, positions: list[np.ndarray], extra: dict[str, np.ndarray]) -> None:
        """A new batch of the structures that are going on."""
        chosen = [self.structures[k] for k in self.going]
        dtype = self.potential.dtype
        self.system = System(
            np.concatenate([atoms.numbers for atoms in chosen]),
            np.ones(sum(len(atoms) for atoms in chosen)),
            node_graph=np.repeat(np.arange(len(chosen)), [len(atoms) for atoms in chosen]),
            pbc=np.array([atoms.pbc for atoms in chosen]),
            fixed=np.concatenate([self._fixed[k] for k in self.going]),
            remove_com=False,
            dtype=dtype,
        )
        cells = [np.where(a.pbc[:, None], np.array(a.cell), 0.0) for a in chosen]
        xyz = np.concatenate(positions)
        state = initial_state(self.system, xyz, np.zeros_like(xyz), np.array(cells))
        pairs = make_pairs(self.system, self.potential.cutoff, 0.5)
        self._engine = Engine(self.system, self.potential, fire(self.system, self.fmax), pairs)
        state = self._engine.start(state)
        arrays = {name: mx.array(array, dtype=dtype) for name, array in extra.items()}
        velocities = arrays.pop("velocities", state.velocities)
        self.state: State = replace(state, velocities=velocities).with_extra(**arrays)
        self._reference = self._engine.reference_energy(self.state)

    def advance(self, steps: int) -> None:
        """Some steps, then structures that are done drop out."""
        try:
            self.state, _ = self._engine.block(self.state, steps)
        except StructureError as error:
            raise ValueError(f"structure {self.going[error.graph]}: {error.reason}") from error
        self.steps += steps
        if not np.isfinite(np.array(self.state.energies)).all():
            bad = self.going[int(np.argmin(np.isfinite(np.array(self.state.energies))))]
            raise ValueError(
                f"the energy of structure {bad} is not finite: it has left what the potential was "
                "trained for; start from a better structure"
            )
        self._drop()

    def _drop(self) -> None:
        forces = np.array(self.state.extra["fmax"])
        done = [slot for slot, force in enumerate(forces) if force <= self.fmax]
        for slot in done:
            self._finish(slot)
        if len(done) < max(1.0, _DONE_PART * len(self.going)) and len(done) < len(self.going):
            return
        rest = [slot for slot in range(len(self.going)) if slot not in done]
        if not rest:
            self.going = []
            return
        positions = [self._positions(slot) for slot in rest]
        atoms = np.concatenate([self._part(slot) for slot in rest])
        extra = {"velocities": np.array(self.state.velocities)[atoms]}
        for name in ("fire_dt", "fire_alpha", "fire_good"):
            extra[name] = np.array(self.state.extra[name])[rest]
        self.going = [self.going[slot] for slot in rest]
        self._begin(positions, extra)

    def finish_rest(self) -> None:
        """Hand in those that have not converged."""
        for slot in range(len(self.going)):
            self._finish(slot)

    def _part(self, slot: int) -> np.ndarray:
        return np.arange(self.system.starts[slot], self.system.starts[slot + 1])

    def _positions(self, slot: int) -> np.ndarray:
        """Unwrapped, as they were given."""
        part, cells = self._part(slot), np.array(self.state.cells).astype(np.float64)
        images = np.rint(np.array(self.state.extra["images"])[part])
        return np.array(self.state.positions)[part].astype(np.float64) + images @ cells[slot]

    def _finish(self, slot: int) -> None:
        number = self.going[slot]
        if number in self.finished:
            return
        relaxed = self.structures[number].copy()
        relaxed.positions = self._positions(slot)
        energy = float(np.array(self.state.energies)[slot] + self._reference[slot])
        forces = np.array(self.state.forces)[self._part(slot)].astype(np.float64)
        relaxed.calc = SinglePointCalculator(relaxed, energy=energy, forces=forces)
        largest = float(np.array(self.state.extra["fmax"])[slot])
        report = RelaxationReport(largest <= self.fmax, self.steps, largest, None, energy)
        self.finished[number] = (relaxed, report)


def _fixed_atoms(atoms: Atoms) -> np.ndarray:
    return fixed_atoms(atoms, "a batch keeps FixAtoms only, not {}: relax this structure alone")
