"""Many steps without waiting for the device, on lists of pairs that are known to hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import mlx.core as mx
import numpy as np

from mlpot.graph import DevicePairs, HostPairs, Pairs
from mlpot.graph.pairs import inverse
from mlpot.kernels.replay import Replayed
from mlpot.models import Potential

from .forces import potential_forces
from .observables import observe
from .state import Evaluation, Integrator, State
from .system import System

Observation = dict[str, mx.array]


def make_pairs(system: System, cutoff: float, skin: float, where: str = "auto") -> HostPairs:
    """What searches pairs: on the device where that is a GPU, else on the host.

    Args:
        system: what moves.
        cutoff: Angstrom.
        skin: Angstrom.
        where: "host", "device" or "auto".

    Raises:
        ValueError: another place.
    """
    kinds: dict[str, type[HostPairs]] = {"host": HostPairs, "device": DevicePairs}
    if where == "auto":
        gpu = mx.default_device().type == mx.DeviceType.gpu
        where = "device" if gpu else "host"
    if where not in kinds:
        raise ValueError(f"pairs are searched on the host or the device, not {where!r}")
    return kinds[where](system.numbers, system.host_graph, system.pbc, cutoff, skin, system.dtype)


class Engine:
    """Advances states of one system with one integrator.

    Steps are submitted one after the other without waiting for their results. Only at the end of
    a block the host asks how far atoms have moved at most: if the list of pairs may have lacked
    one at any step, the block is thrown away and repeated from its beginning with a new list. A
    list is also renewed before a block in which it would probably run out.

    Args:
        system: what moves.
        potential: the model, in the precision of the system.
        integrator: of `mlpot.md`.
        pairs: what searches pairs, see `make_pairs`; may be shared by engines of one system.

    Attributes:
        n_repeated: blocks that had to be repeated.
        n_exact: steps taken with a list for each evaluation of the forces.
    """

    def __init__(
        self, system: System, potential: Potential, integrator: Integrator, pairs: HostPairs
    ) -> None:
        self.system, self.potential, self.integrator = system, potential, integrator
        self.search = pairs
        self.n_repeated = self.n_exact = 0
        self._pairs: Pairs | None = None
        self._listed: dict[str, mx.array] = {}
        self._needed: mx.array | None = None
        self._origin: tuple[mx.array, mx.array] | None = None  # what the list was made of
        self._steps = 0  # since the list is there
        skin = pairs.skin

        def forces(listed: dict[str, mx.array]):
            found = Pairs.from_arrays(listed)
            return potential_forces(potential, system, found, skin, stress=integrator.stress)

        def step(arrays: dict[str, mx.array], listed: dict[str, mx.array]) -> Any:
            return integrator.step(State.from_arrays(arrays), forces(listed)).arrays()

        def init(arrays: dict[str, mx.array], listed: dict[str, mx.array]) -> Any:
            return integrator.init(State.from_arrays(arrays), forces(listed)).arrays()

        def look(arrays: dict[str, mx.array], listed: dict[str, mx.array]) -> Any:
            state = State.from_arrays(arrays)
            return observe(system, integrator, state, Pairs.from_arrays(listed))

        self._step, self._init, self._look = Replayed(step), Replayed(init), Replayed(look)

    @property
    def n_traces(self) -> int:
        """How often a function was traced: once for each size of the list of pairs."""
        return self._step.n_traces + self._init.n_traces + self._look.n_traces

    def start(self, state: State) -> State:
        """The state with its forces and the integrator's own variables; evaluated.

        Raises:
            ValueError: pairs cannot be listed: positions that are not finite, or equal.
        """
        if "images" not in state.extra:
            state = state.with_extra(images=mx.zeros_like(state.positions))
        for _ in range(6):
            state = self._renew(state)
            arrays = self._init(state.arrays(), self._listed)
            mx.eval(arrays)
            if self._complete():
                return State.from_arrays(arrays)
        raise ValueError("the list of pairs outgrows all room made for it")

    def reference_energy(self, state: State) -> np.ndarray:
        """Sum of the E0 of each structure's atoms, (n_graphs,), eV."""
        if self._pairs is None:
            self._renew(state)
        assert self._pairs is not None
        return self.potential.reference_energy(self._pairs.graph)[: self.system.n_graphs]

    def forget(self) -> None:
        """Begin the next block with a new list, as a run does that starts from its state."""
        self._pairs = None

    def marked(self, state: State) -> State:
        """The state with what makes the present list again, for `recall` by another engine."""
        if self._pairs is None or self._origin is None:
            return state
        positions, cells = self._origin
        steps = mx.array(float(self._steps), dtype=self.system.dtype)
        return state.with_extra(list_positions=positions, list_cells=cells, list_steps=steps)

    def recall(self, state: State) -> State:
        """Make the list of a `marked` state; the state without the marks.

        The order of a list decides how sums are rounded, so that only the same list leads to the
        same steps.
        """
        extra = dict(state.extra)
        marks = [extra.pop(f"list_{name}", None) for name in ("positions", "cells", "steps")]
        positions, cells, steps = marks
        if positions is None or cells is None or steps is None:
            return state
        for _ in range(6):
            self._list(positions, cells)
            mx.eval(self._listed)
            if self._complete():
                self._steps = int(steps)
                break
        else:
            self.forget()
        return replace(state, extra=extra)

    def look(self, state: State) -> Observation:
        """Observables of a state; see `mlpot.md.observables.observe`."""
        if self._pairs is None:
            state = self._renew(state)
        return self._look(state.arrays(), self._listed)

    def block(
        self,
        state: State,
        steps: int,
        wanted: Callable[[int], bool] = lambda step: False,
    ) -> tuple[State, dict[int, tuple[Observation, State]]]:
        """Take some steps without waiting.

        Args:
            state: evaluated, of `start` or an earlier block.
            steps: how many.
            wanted: which steps, from 1 on, are to be looked at; the last one always is.

        Returns:
            The state, evaluated, and observables and states of the wanted steps.

        Raises:
            ValueError: pairs cannot be listed.
        """
        if self.search.skin == 0:
            return self._exactly(state, steps, wanted)
        if self._pairs is None or self._runs_out(state, steps):
            state = self._renew(state)
        fresh = self._steps == 0
        arrays: dict[str, mx.array] = state.arrays()
        seen: dict[int, tuple[Observation, State]] = {}
        for number in range(1, steps + 1):
            arrays = self._step(arrays, self._listed)
            if number == steps or wanted(number):
                found = self._look(arrays, self._listed)
                seen[number] = (found, State.from_arrays(arrays))
                mx.async_eval(arrays, found)
            else:
                mx.async_eval(arrays)
        mx.eval(arrays, [found for found, _ in seen.values()])
        complete = self._complete()
        if complete and float(arrays["excess"]) <= 0:
            self._steps += steps
            return State.from_arrays(arrays), seen
        self.n_repeated += 1
        if complete and fresh:
            # Atoms outrun even a new list: shorter blocks, in the end without any skin.
            self.forget()
            if steps == 1:
                return self._exactly(state, 1, wanted)
            half = steps // 2
            state, seen = self.block(state, half, wanted)
            self.forget()
            last, more = self.block(state, steps - half, lambda step: wanted(step + half))
            seen.update({step + half: values for step, values in more.items()})
            return last, {step: seen[step] for step in seen if step == steps or wanted(step)}
        self.forget()
        return self.block(state, steps, wanted)

    def _runs_out(self, state: State, steps: int) -> bool:
        """Whether atoms will probably outrun the list within some steps."""
        if self._steps == 0:
            return False
        used = float(state.excess) + self.search.skin
        return used * (1.0 + 1.1 * steps / self._steps) > self.search.skin

    def _renew(self, state: State) -> State:
        """Make a new list; atoms are moved into the cell, which changes no energy."""
        state = replace(self._wrapped(state), excess=mx.array(-self.search.skin - 1e-9))
        state = replace(state, excess=state.excess.astype(self.system.dtype))
        self._list(state.positions, state.cells)
        self._steps = 0
        return state

    def _list(self, positions: mx.array, cells: mx.array) -> None:
        self._origin = positions, cells
        self._pairs, self._needed = self.search.build(positions, cells)
        self._listed = self._pairs.arrays()

    def _complete(self) -> bool:
        """Whether the list had room for all pairs; asks once for each list."""
        if self._needed is None:
            return True
        needed, self._needed = np.array(self._needed), None
        return self.search.fits(needed)

    def _wrapped(self, state: State) -> State:
        pbc = self.system.pbc
        if not pbc.any():
            return state
        periodic = mx.array(pbc.astype(np.float64), dtype=self.system.dtype)
        rows = state.cells + (1.0 - periodic)[:, :, None] * mx.eye(3, dtype=self.system.dtype)
        along = self.system.rows_times(state.positions, inverse(rows))
        wraps = mx.floor(along) * self.system.per_atom(periodic)
        positions = state.positions - self.system.rows_times(wraps, state.cells)
        return replace(state, positions=positions).with_extra(images=state.extra["images"] + wraps)

    def _exactly(
        self, state: State, steps: int, wanted: Callable[[int], bool]
    ) -> tuple[State, dict[int, tuple[Observation, State]]]:
        """Steps with a list for each evaluation of the forces: the host waits for each."""

        def forces(positions: mx.array, cells: mx.array) -> Evaluation:
            mx.eval(positions, cells)
            for _ in range(6):
                self._pairs, self._needed = self.search.build(positions, cells)
                if self._complete():
                    break
            assert self._pairs is not None
            self._listed = self._pairs.arrays()
            bind = potential_forces(
                self.potential,
                self.system,
                self._pairs,
                self.search.skin,
                stress=self.integrator.stress,
            )
            return bind(positions, cells)

        seen = {}
        for number in range(1, steps + 1):
            state = self.integrator.step(state, forces)
            mx.eval(state.arrays())
            self.n_exact += 1
            if number == steps or wanted(number):
                found = self._look(state.arrays(), self._listed)
                mx.eval(found)
                seen[number] = (found, state)
        self.forget()
        return state, seen
