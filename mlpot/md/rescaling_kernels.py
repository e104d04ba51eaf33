"""`mlpot.md.bussi` and `mlpot.md.cell_rescaling` by few GPU kernels."""

from __future__ import annotations

from dataclasses import replace

import mlx.core as mx
from jaxtyping import Float

from .atom_kernels import A, AtomKernels, D, M, R, U
from .state import State
from .structure_kernels import (
    BEGIN,
    VOLUME,
    WITHOUT_CENTRE,
    StructureKernel,
    indented,
    planned,
    unit,
)
from .system import System
from .verlet_kernels import LAST, constants, kicks

_RESCALE = """
const float keep = numbers[1], rest = numbers[2];
const float kinetic = 0.5f * twice, half_heat = 0.5f * heat;
const float deviate = deviates[s * deviates_shape[1]];
const float cross_term = 2.0f * deviate * SQRT(keep * rest * kinetic * half_heat);
const float wanted = FMAX(keep * kinetic + rest * half_heat * squared[s] + cross_term, 0.0f);
// Atoms at rest cannot be scaled to a temperature.
const float ratio = kinetic > 0.0f ? wanted / kinetic : 1.0f;
// The amplitude may go through zero: then velocities are reversed.
const float sign_of = deviate + SQRT(keep / rest * kinetic / half_heat) < 0.0f ? -1.0f : 1.0f;
const float factor = sign_of * SQRT(ratio);
float given = heat_given[s] + kinetic * (ratio - 1.0f);
"""
_TRACE = "const float tension = stresses[9 * s] + stresses[9 * s + 4] + stresses[9 * s + 8];\n"
_WORK = "given += 0.5f * (virial[s] + volume * tension) * strain[s];\n"
_BREATHE = """
const float rate = numbers[1], target = numbers[2];
const float root = SQRT(volume), pressure = (twice / volume - tension) / 3.0f;
const float pull = target - pressure - 0.5f * heat / volume;
const float change = -rate * root * pull + SQRT(rate * heat) * noise[s];
const float scale = EXP(LOG(FABS((root + change) / root)) * (2.0f / 3.0f));
const float given = 0.5f * twice * (1.0f / (scale * scale) - 1.0f);
heat_out[s] = heat_given[s] + given + target * volume * (scale * scale * scale - 1.0f);
strain[s] = scale - 1.0f;
virial[s] = volume * tension;
for (int k = 0; k < 9; ++k) cells_out[9 * s + k] = cells[9 * s + k] * scale;
"""
# Half a drift, scaled, and half a drift with the new velocities.
_HALF_DRIFTS = {
    A: unit("1.0f / scale"),
    M: "0.0f",
    U: "u[k] / scale",
    R: unit("scale"),
    D: unit("0.5f * dt * (scale * scale + 1.0f)"),
}


class RescalingKernels:
    """The end of a step: velocities rescaled to a random kinetic energy.

    Args:
        system: what moves, in float32.
        dt: time step, units of the integrators.
        keep: exp(-dt/tau), the share of the kinetic energy that is kept.
        cell: whether stresses do work on a cell that was rescaled (`CellKernels`).
    """

    def __init__(self, system: System, dt: float, keep: float, cell: bool = False) -> None:
        self._system, self._cell = system, cell
        self._numbers = constants([dt, keep, 1.0 - keep])
        body = [BEGIN, WITHOUT_CENTRE, _RESCALE]
        inputs = ["sums", "degrees", "inverse_total", "deviates", "squared", "heat_given"]
        if cell:
            inputs += ["cells", "stresses", "virial", "strain"]
            body += [VOLUME, _TRACE, _WORK]
        self._kernel = StructureKernel(
            "rescale_cell" if cell else "rescale",
            [*inputs, "numbers"],
            {"last": (4,), "heat_out": (1,)},
            indented("\n".join([*body, "heat_out[s] = given;", LAST])),
        )

    def end(
        self,
        atoms: AtomKernels,
        state: State,
        sums: Float[mx.array, "9 n_graphs"],
        deviates: Float[mx.array, "n_graphs n_deviates"],
        work: tuple[mx.array, mx.array] | None = None,
    ) -> State:
        """Rescale.

        Args:
            atoms: moves the atoms.
            state: with velocities whose centre of mass may still move.
            sums: of `AtomKernels.kick`.
            deviates: normal ones, zero behind the degrees of freedom of a structure.
            work: virials and strains of `CellKernels.breathe`.
        """
        arrays = {}
        if self._cell:
            assert work is not None
            arrays = {"virial": work[0], "strain": work[1]}
            arrays |= {"cells": state.cells, "stresses": state.stresses}
        found = self._kernel(
            kT=state.kT,
            sums=sums,
            degrees=self._system.degrees,
            inverse_total=self._system.inverse_total,
            deviates=deviates,
            squared=(deviates * deviates).sum(axis=1),
            heat_given=state.extra["heat"],
            numbers=self._numbers,
            **arrays,
        )
        state = atoms.finish(state, found["last"])
        return state.with_extra(heat=found["heat_out"].reshape(-1))


class CellKernels:
    """The first half of a step of stochastic cell rescaling.

    Args:
        system: what moves, in float32.
        dt: time step, units of the integrators.
        rate: beta dt / (2 tau_p), as in `mlpot.md.cell_rescaling`.
        target: pressure, eV/Angstrom^3.
    """

    def __init__(self, system: System, dt: float, rate: float, target: float) -> None:
        self._system = system
        self._numbers, self._kicks = constants([dt, rate, target]), kicks(system, dt)
        inputs = ["sums", "degrees", "inverse_total", "cells", "stresses", "noise", "heat_given"]
        outputs = {"plan": (39,), "cells_out": (3, 3)}
        outputs |= dict.fromkeys(("heat_out", "strain", "virial"), (1,))
        body = [BEGIN, WITHOUT_CENTRE, VOLUME, _TRACE, _BREATHE, planned("plan", _HALF_DRIFTS)]
        self._kernel = StructureKernel(
            "breathe", [*inputs, "numbers"], outputs, indented("\n".join(body))
        )

    def kick(self, atoms: AtomKernels, state: State) -> tuple[State, Float[mx.array, "9 n_graphs"]]:
        """Half a step of the velocities; the centre of mass still moves."""
        return atoms.kick(state, self._kicks)

    def breathe(
        self, atoms: AtomKernels, state: State, noise: Float[mx.array, " n_graphs"]
    ) -> tuple[State, tuple[mx.array, mx.array]]:
        """Until the new positions; returns virials of before and strains, for the work done."""
        state, sums = self.kick(atoms, state)
        found = self._kernel(
            kT=state.kT,
            sums=sums,
            degrees=self._system.degrees,
            inverse_total=self._system.inverse_total,
            cells=state.cells,
            stresses=state.stresses,
            noise=noise,
            heat_given=state.extra["heat"],
            numbers=self._numbers,
        )
        state = replace(atoms.advance(state, found["plan"]), cells=found["cells_out"])
        state = state.with_extra(heat=found["heat_out"].reshape(-1))
        return state, (found["virial"], found["strain"])
