"""Moves of all atoms by one GPU kernel each, and the sums over atoms that integrators ask for.

In plain MLX half a step is tens of operations on a few numbers, each of which a GPU waits for
longer than it computes. Here it is four kernels:

    sums over the atoms;  numbers of each structure made of them (`mlpot.md.structure_kernels`);
    all atoms moved by those numbers;

A structure's numbers are a row of a ``plan``: a matrix A for velocities, M for accelerations, a
velocity u that is taken off (of the centre of mass), matrices R and D for positions,

    v' = v A + (F/m) M - u,        r' = r R + v' D.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import mlx.core as mx
from jaxtyping import Float

from mlpot.kernels import dispatch, gpu

from .state import State
from .system import System

THREADS = 256
#: Where A, M, u, R and D begin in a row of a plan, and how long it is.
A, M, U, R, D, PLAN = 0, 9, 18, 21, 30, 39

_BEGIN = f"""
    const int i = BLOCK_X * {THREADS} + THREAD_X;
    const int n_atoms = velocities_shape[0];
    if (i < n_atoms) {{
        const float v0 = velocities[3 * INDEX(i)], v1 = velocities[3 * INDEX(i) + 1];
        const float v2 = velocities[3 * INDEX(i) + 2];
"""
_SQUARES = """
        const float p0 = masses[i] * {v}0, p1 = masses[i] * {v}1, p2 = masses[i] * {v}2;
        sums[i] = p0 * {v}0;
        sums[INDEX(n_atoms) + i] = p1 * {v}1;
        sums[2 * INDEX(n_atoms) + i] = p2 * {v}2;
        sums[3 * INDEX(n_atoms) + i] = p0 * {v}1;
        sums[4 * INDEX(n_atoms) + i] = p0 * {v}2;
        sums[5 * INDEX(n_atoms) + i] = p1 * {v}2;
        sums[6 * INDEX(n_atoms) + i] = p0;
        sums[7 * INDEX(n_atoms) + i] = p1;
        sums[8 * INDEX(n_atoms) + i] = p2;
"""
_FORCES = "".join(
    f"        sums[{9 + axis} * INDEX(n_atoms) + i] = forces[3 * INDEX(i) + {axis}];\n"
    for axis in range(3)
)
_PUSH = "        const int p = owner[i] * plan_shape[1];\n" + "".join(
    f"        const float a{axis} = inverse[i] * forces[3 * INDEX(i) + {axis}];\n"
    for axis in range(3)
)


def _row(vector: str, start: int, column: int) -> str:
    """A component of a vector times a matrix of the plan."""
    return " + ".join(f"{vector}{k} * plan[p + {start + 3 * k + column}]" for k in range(3))


_KICK = "".join(
    f"        const float w{c} = {_row('v', A, c)} + ({_row('a', M, c)});\n" for c in range(3)
)
_ADVANCE = (
    "".join(
        f"        const float w{c} = {_row('v', A, c)} + ({_row('a', M, c)}) - plan[p + {U + c}];\n"
        f"        const float x{c} = positions[3 * INDEX(i) + {c}];\n"
        for c in range(3)
    )
    + "".join(
        f"        moved[3 * INDEX(i) + {c}] = {_row('x', R, c)} + ({_row('w', D, c)});\n"
        for c in range(3)
    )
    + "".join(f"        kicked[3 * INDEX(i) + {c}] = w{c};\n" for c in range(3))
)
_STORE = "".join(f"        kicked[3 * INDEX(i) + {c}] = w{c};\n" for c in range(3))
_SHAKE = (
    "        const int p = 5 * owner[i];\n"
    "        const float root = inverse[i] > 0.0f ? SQRT(inverse[i]) * bath[p + 3] : 0.0f;\n"
    + "".join(
        f"        const float s{c} = v{c} - bath[p + {c}];\n"
        f"        moved[3 * INDEX(i) + {c}] = positions[3 * INDEX(i) + {c}] + factors[0] * s{c};\n"
        f"        const float w{c} = factors[1] * s{c}\n"
        f"            + factors[2] * root * noise[3 * INDEX(i) + {c}];\n"
        for c in range(3)
    )
)
_FINISH = "        const int p = 4 * owner[i];\n" + "".join(
    f"        kicked[3 * INDEX(i) + {c}] = last[p] * (v{c} - last[p + {1 + c}]);\n"
    for c in range(3)
)
_KERNELS = {
    "md_sums": (
        ["velocities", "forces", "masses"],
        ["sums"],
        _SQUARES.format(v="v") + _FORCES,
    ),
    "md_advance": (
        ["velocities", "forces", "positions", "inverse", "owner", "plan"],
        ["kicked", "moved"],
        _PUSH + _ADVANCE,
    ),
    "md_kick": (
        ["velocities", "forces", "masses", "inverse", "owner", "plan"],
        ["kicked", "sums"],
        _PUSH + _KICK + _STORE + _SQUARES.format(v="w"),
    ),
    "md_shake": (
        ["velocities", "positions", "noise", "masses", "inverse", "owner", "bath", "factors"],
        ["kicked", "moved", "sums"],
        _SHAKE + _STORE + _SQUARES.format(v="w"),
    ),
    "md_finish": (["velocities", "owner", "last"], ["kicked"], _FINISH),
}


@cache
def _kernel(name: str) -> gpu.GeneratedKernel:
    inputs, outputs, body = _KERNELS[name]
    return gpu.GeneratedKernel(name, inputs, outputs, _BEGIN + body + "    }\n")


class AtomKernels:
    """Moves of the atoms of a system by GPU kernels.

    Args:
        system: what moves, in float32.
    """

    def __init__(self, system: System) -> None:
        self._system = system
        self._inverse = system.mobility(1.0)

    def _run(self, name: str, arrays: list[mx.array], shapes: list[tuple[int, ...]]):
        blocks = -(-self._system.n_atoms // THREADS)
        types = [mx.float32] * len(shapes)
        return _kernel(name)(arrays, shapes, types, blocks=blocks, threads=THREADS)

    def _summed(self, sums: mx.array) -> mx.array:
        """(n_sums, n_graphs) of (n_sums, n_atoms)."""
        system = self._system
        if system.equal_counts:
            return sums.reshape(sums.shape[0], system.n_graphs, -1).sum(axis=2)
        return system.per_graph(sums.T).T

    def sums(self, state: State) -> Float[mx.array, "12 n_graphs"]:
        """Sums of m v v^T (xx, yy, zz, xy, xz, yz), of momenta and of forces."""
        n = self._system.n_atoms
        arrays = [state.velocities, state.forces, self._system.masses]
        return self._summed(self._run("md_sums", arrays, [(12, n)])[0])

    def advance(self, state: State, plan: Float[mx.array, "n_graphs 39"]) -> State:
        """New velocities, and new positions by these."""
        owner, shape = self._system.node_graph, state.velocities.shape
        arrays = [state.velocities, state.forces, state.positions, self._inverse, owner, plan]
        velocities, positions = self._run("md_advance", arrays, [shape, shape])
        return replace(state, velocities=velocities, positions=positions)

    def kick(
        self, state: State, plan: Float[mx.array, "n_graphs width"]
    ) -> tuple[State, Float[mx.array, "9 n_graphs"]]:
        """Velocities v A + (F/m) M, and sums of m v v^T and momenta of them.

        Args:
            state: with its forces.
            plan: begins with A and M; what else it holds is not looked at.
        """
        system = self._system
        arrays = [state.velocities, state.forces, system.masses, self._inverse, system.node_graph]
        shapes = [state.velocities.shape, (9, system.n_atoms)]
        velocities, sums = self._run("md_kick", [*arrays, plan], shapes)
        return replace(state, velocities=velocities), self._summed(sums)

    def shaken(
        self,
        state: State,
        noise: Float[mx.array, "n_atoms 3"],
        bath: Float[mx.array, "n_graphs 5"],
        factors: Float[mx.array, " 3"],
    ) -> tuple[State, Float[mx.array, "9 n_graphs"]]:
        """Positions r + a (v - u), velocities b (v - u) + c sqrt(kT/m) noise, and sums of these.

        Args:
            state: in which the centre of mass still moves.
            noise: normally distributed.
            bath: u and the root of kT of each structure, and one number more.
            factors: a, b and c.
        """
        system, shape = self._system, state.velocities.shape
        arrays = [state.velocities, state.positions, noise, system.masses, self._inverse]
        arrays += [system.node_graph, bath, factors]
        shapes = [shape, shape, (9, system.n_atoms)]
        velocities, positions, sums = self._run("md_shake", arrays, shapes)
        return replace(state, velocities=velocities, positions=positions), self._summed(sums)

    def finish(self, state: State, last: Float[mx.array, "n_graphs 4"]) -> State:
        """Velocities f (v - u); ``last`` holds f and u of each structure."""
        arrays = [state.velocities, self._system.node_graph, last]
        (velocities,) = self._run("md_finish", arrays, [state.velocities.shape])
        return replace(state, velocities=velocities)


def atom_kernels(system: System) -> AtomKernels | None:
    """The kernels where they can run here, else None: then plain MLX moves the atoms."""

    def check() -> str | None:
        blocks = -(-system.n_atoms // THREADS)
        refused = gpu.refusal(system.masses, types=(mx.float32,))
        return refused or gpu.grid_refusal(blocks, THREADS) or gpu.unmeasured()

    if dispatch.choose("md.moves", gpu.offers(check)) in gpu.DIALECTS:
        return AtomKernels(system)
    return None
