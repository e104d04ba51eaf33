"""Watching a run: what is wrong with a state, and which pairs come closer than the model knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .config import MDConfig
from .guard import has_neighbor
from .state import State
from .system import System

if TYPE_CHECKING:
    from rich.console import Console

# Looking for lost atoms takes a neighbour list on the host at every block.
_LARGEST_LOOKED_AT = 5_000


class Watch:
    """Tells what is wrong with the states of a run.

    Args:
        config: of the run.
        known: Angstrom, closest pair that the model was trained on; None where not known.
        console: of rich, where a warning is shown.

    Attributes:
        closest: Angstrom, the closest pair seen.
        warned: whether it was closer than known.
    """

    def __init__(self, config: MDConfig, known: float | None, console: Console | None) -> None:
        self.closest, self.warned = float("inf"), False
        self._config, self._console = config, console
        self._known = config.closest_pair or known
        self._bound: np.ndarray | None = None

    def begin(self, system: System, state: State) -> None:
        """Remember which atoms have another one nearby: only those can be lost."""
        if system.n_atoms <= _LARGEST_LOOKED_AT:
            self._bound = self._near(system, state)

    def recall(self, log: dict[str, np.ndarray], step: int) -> None:
        """Take the closest pair that an earlier part of the run has logged up to a step."""
        self.closest = float(log["closest_A"][log["step"] <= step].min(initial=self.closest))
        self.warned = self._known is not None and self.closest < self._known

    def energies(self, step: int, values: dict[str, np.ndarray]) -> str | None:
        """What is wrong with the observables of a step; a relaxation has no temperature (NaN)."""
        for name in ("potential", "kinetic"):
            bad = ~np.isfinite(values[name])
            if bad.any():
                return f"the {name} energy is {values[name][bad][0]}"
        relaxing = bool(np.isnan(values["temperature"]).all())
        hottest, limit = float(values["temperature"].max()), self._config.max_temperature
        if not relaxing and not hottest <= limit:
            return f"the temperature is {hottest:.6g} K, above the limit of {limit:g} K"
        self.closest = min(self.closest, float(values["closest"].min()))
        if self._known is not None and self.closest < self._known and not self.warned:
            self.warned = True
            if self._console is not None:
                self._console.print(
                    f"Warning: at step {step} two atoms are {self.closest:.3f} Å apart, closer "
                    f"than any in the training data ({self._known:.3f} Å): the potential guesses "
                    "there."
                )
        return None

    def lost(self, system: System, state: State) -> str | None:
        """Which atoms have left all others."""
        if self._bound is None or not self._bound.any():
            return None
        gone = np.flatnonzero(self._bound & ~self._near(system, state))
        if len(gone) == 0:
            return None
        names = ", ".join(str(i) for i in gone[:5]) + (", ..." if len(gone) > 5 else "")
        return (
            f"{len(gone)} atom(s) are lost (index {names}): no other atom within "
            f"{self._config.lost_distance:g} Angstrom"
        )

    def _near(self, system: System, state: State) -> np.ndarray:
        xyz = np.array(state.positions).astype(np.float64)
        cells = np.array(state.cells).astype(np.float64)
        distance = self._config.lost_distance
        near = [
            has_neighbor(xyz[first:last], cells[graph], system.pbc[graph], distance)
            for graph, (first, last) in enumerate(
                zip(system.starts[:-1], system.starts[1:], strict=True)
            )
        ]
        return np.concatenate(near)
