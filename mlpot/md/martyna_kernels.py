"""Steps of `mlpot.md.npt` by a handful of GPU kernels."""

from __future__ import annotations

from dataclasses import replace

import mlx.core as mx
from jaxtyping import Float

from .atom_kernels import A, AtomKernels, D, M, R, U
from .state import Forces, State
from .structure_kernels import (
    BEGIN,
    SYMMETRIC,
    VOLUME,
    WITHOUT_CENTRE,
    StructureKernel,
    chain,
    exponential,
    indented,
    planned,
    product,
    scaled,
    unit,
)
from .system import System
from .verlet_kernels import LAST, constants

_CELL = """
const float tau2 = numbers[1], cell_tau2 = numbers[2], target = numbers[3];
const float inertia = (n + 3.0f) * heat * (cell_tau2 / 3.0f);
float g[9];
for (int k = 0; k < 9; ++k) g[k] = strain_rate[9 * s + k];
"""
_RATE_OUT = "for (int k = 0; k < 9; ++k) strain_rate_out[9 * s + k] = g[k];\n"
_CHAINS = [
    f"{name}_{what}" for name in ("chain", "cell_chain") for what in ("position", "velocity")
]
_INPUTS = ["sums", "degrees", "inverse_total", "cells", "stresses", "strain_rate", "numbers"]


def _cell_bath(length: int, full_cell: bool) -> str:
    count = "6.0f" if full_cell else "1.0f"
    return f"""
float moving = 0.0f;
for (int k = 0; k < 9; ++k) moving += g[k] * g[k];
{chain("cell_chain", length, "inertia * moving", count, "cell_tau2", "cell_factor")}
for (int k = 0; k < 9; ++k) g[k] *= cell_factor;
"""


def _bath(length: int) -> str:
    return chain("chain", length, "twice", "n", "tau2", "factor") + scaled("factor")


def _cell_kick(full_cell: bool) -> str:
    lines = [VOLUME, "float pull[9];"]
    for k, place in enumerate(SYMMETRIC):
        r, c = divmod(k, 3)
        pressure = f"0.5f * (stresses[9 * s + {k}] + stresses[9 * s + {3 * c + r}])"
        rest = " - volume * target + twice / n" if r == c else ""
        lines.append(f"pull[{k}] = squares[{place}] - volume * {pressure}{rest};")
    if not full_cell:
        lines += [
            "const float third = (pull[0] + pull[4] + pull[8]) / 3.0f;",
            f"for (int k = 0; k < 9; ++k) pull[k] = {unit('third')};",
        ]
    lines.append("for (int k = 0; k < 9; ++k) g[k] += 0.5f * dt * pull[k] / inertia;")
    return "\n".join(lines) + "\n"


_PATH = f"""
const float trace = (g[0] + g[4] + g[8]) / n;
float damp[9], rate[9];
for (int k = 0; k < 9; ++k) {{
    damp[k] = -0.5f * dt * (g[k] + {unit("trace")});
    rate[k] = dt * g[k];
}}
{exponential("damp", "slowed", "mean")}
{exponential("rate", "stretch", "mean_rate")}
float u[3];
for (int c = 0; c < 3; ++c) {{
    float sum = 0.0f;
    for (int k = 0; k < 3; ++k) {{
        sum += momentum[k] * slowed[3 * k + c];
        sum += 0.5f * dt * sums[(9 + k) * n_graphs + s] * mean[3 * k + c];
    }}
    u[c] = sum * inverse_total[s];
}}
"""


class MartynaKernels:
    """Steps of constant pressure with all arithmetic of a structure in two kernels.

    Args:
        system: what moves, in float32.
        dt, tau, tau_pressure: units of the integrators.
        target: pressure, eV/Angstrom^3.
        full_cell: whether lengths and angles of the cell change.
        length: thermostats of a chain.
    """

    def __init__(
        self,
        system: System,
        dt: float,
        tau: float,
        tau_pressure: float,
        target: float,
        full_cell: bool,
        length: int,
    ) -> None:
        self._system = system
        self._numbers = constants([dt, tau * tau, tau_pressure * tau_pressure, target])
        own = {f"{name}_out": (length,) for name in _CHAINS} | {"strain_rate_out": (3, 3)}
        kind = f"{'full' if full_cell else 'volume'}_{length}"
        bath, cell_bath = _bath(length), _cell_bath(length, full_cell)
        kick = _cell_kick(full_cell)
        velocities = {A: "factor * slowed[k]", M: "0.5f * dt * mean[k]", U: "u[k]"}
        places = {R: "stretch[k]", D: "dt * mean_rate[k]"}
        before = [
            *(BEGIN, _CELL, cell_bath, bath, kick, _RATE_OUT, _PATH),
            planned("plan", velocities | places),
            planned("later", {A: "slowed[k]", M: "0.5f * dt * mean[k]"}, width=18),
            product("cells_out[9 * s + {}]", "cells[9 * s + {}]", "stretch[{}]"),
        ]
        after = [BEGIN, WITHOUT_CENTRE, _CELL, kick, bath, cell_bath, _RATE_OUT, LAST]
        inputs = [*_INPUTS, *_CHAINS]
        self._before = StructureKernel(
            f"npt_before_{kind}",
            inputs,
            {**own, "plan": (39,), "later": (18,), "cells_out": (3, 3)},
            indented("\n".join(before)),
        )
        self._after = StructureKernel(
            f"npt_after_{kind}", inputs, {**own, "last": (4,)}, indented("\n".join(after))
        )

    def _arguments(self, state: State, sums: Float[mx.array, "n_sums n_graphs"]):
        extra = {name: state.extra[name] for name in (*_CHAINS, "strain_rate")}
        return extra | {
            "sums": sums,
            "kT": state.kT,
            "degrees": self._system.degrees,
            "inverse_total": self._system.inverse_total,
            "cells": state.cells,
            "stresses": state.stresses,
            "numbers": self._numbers,
        }

    def step(self, atoms: AtomKernels, state: State, forces: Forces) -> State:
        """One time step, as that of `mlpot.md.npt`."""
        found = self._before(**self._arguments(state, atoms.sums(state)))
        state = _with_results(atoms.advance(state, found["plan"]), found)
        state = replace(state, cells=found["cells_out"]).evaluated(forces)
        state, sums = atoms.kick(state, found["later"])
        found = self._after(**self._arguments(state, sums))
        return _with_results(atoms.finish(state, found["last"]), found)


def _with_results(state: State, found: dict[str, mx.array]) -> State:
    names = [*_CHAINS, "strain_rate"]
    return state.with_extra(**{name: found[f"{name}_out"] for name in names})
