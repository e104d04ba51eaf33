"""Kernels with one thread for each structure: thermostats and barostats on GPUs.

What a chain of thermostats or a cell does in a step are some hundred operations on a few numbers.
Bodies are put together from the pieces of this module; they hold, for structure ``s``,

``heat``, ``n``
    kT and degrees of freedom
``dt``
    time step
``squares[6]``, ``twice``
    sums of m v v^T (xx, yy, zz, xy, xz, yz), and their trace, twice the kinetic energy
``momentum[3]``
    of the centre of mass
"""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx

from mlpot.kernels import gpu

from .atom_kernels import PLAN, U

THREADS = 32

#: Where the sums hold xx, xy, xz, yx, ...
SYMMETRIC = (0, 3, 4, 3, 1, 5, 4, 5, 2)


class StructureKernel:
    """Numbers of each structure from others.

    Args:
        name: an identifier.
        inputs: names of arrays in the body, all with n_graphs rows but for ``sums`` (which have
            n_graphs columns) and ``numbers``.
        outputs: name and shape of a row of each result.
        body: what a thread does for its structure ``s``; ``n_graphs`` is there.
    """

    def __init__(
        self, name: str, inputs: Sequence[str], outputs: dict[str, tuple[int, ...]], body: str
    ) -> None:
        self._outputs = outputs
        whole = f"""
    const int s = BLOCK_X * {THREADS} + THREAD_X;
    const int n_graphs = kT_shape[0];
    if (s < n_graphs) {{
{body}
    }}
"""
        self._inputs = ["kT", *inputs]
        self._kernel = gpu.GeneratedKernel(name, self._inputs, list(outputs), whole)

    def __call__(self, **arrays: mx.array) -> dict[str, mx.array]:
        """The results by name, lazily."""
        n_graphs = arrays["kT"].shape[0]
        shapes = [(n_graphs, *row) for row in self._outputs.values()]
        found = self._kernel(
            [arrays[name] for name in self._inputs],
            shapes,
            [mx.float32] * len(shapes),
            blocks=-(-n_graphs // THREADS),
            threads=THREADS,
        )
        return dict(zip(self._outputs, found, strict=True))


def indented(text: str, by: int = 8) -> str:
    """Text with every line moved to the right."""
    return "".join(" " * by + line + "\n" for line in text.strip("\n").splitlines())


#: Sets heat, n, dt and reads the sums.
BEGIN = """
const float heat = kT[s], n = degrees[s], dt = numbers[0];
float squares[6], momentum[3];
for (int k = 0; k < 6; ++k) squares[k] = sums[k * n_graphs + s];
for (int k = 0; k < 3; ++k) momentum[k] = sums[(6 + k) * n_graphs + s];
float twice = squares[0] + squares[1] + squares[2];
"""

#: Velocity of the centre of mass taken off, and what that takes from the sums.
WITHOUT_CENTRE = """
float u[3];
for (int k = 0; k < 3; ++k) u[k] = momentum[k] * inverse_total[s];
for (int k = 0; k < 3; ++k) squares[k] -= u[k] * momentum[k];
squares[3] -= u[0] * momentum[1];
squares[4] -= u[0] * momentum[2];
squares[5] -= u[1] * momentum[2];
twice = squares[0] + squares[1] + squares[2];
"""


def chain(name: str, length: int, twice: str, count: str, tau2: str, factor: str) -> str:
    """Half a step of a Nose-Hoover chain, see `mlpot.md.nose_hoover.Chain`.

    Args:
        name: of the arrays ``NAME_position`` and ``NAME_velocity``, and of the results with
            ``_out`` behind.
        length: number of thermostats.
        twice: expression for twice the kinetic energy.
        count: expression for the degrees of freedom.
        tau2: expression for the square of the time constant.
        factor: variable that is set to the factor for velocities.
    """
    last = length - 1
    return f"""
float {factor};
{{
    const float part = 0.5f * dt, mass = heat * {tau2}, first = ({count}) * mass;
    float v[{length}], energy = {twice};
    for (int j = 0; j < {length}; ++j) v[j] = {name}_velocity[{length} * s + j];
    {factor} = 1.0f;
    for (int half_done = 0; half_done < 2; ++half_done) {{
        for (int k = 0; k < {length}; ++k) {{
            const int j = half_done == 0 ? {last} - k : k;
            float pull;
            if (j == 0) pull = (energy - ({count}) * heat) / first;
            else pull = ((j == 1 ? first : mass) * v[j - 1] * v[j - 1] - heat) / mass;
            float slow = 1.0f;
            if (j < {last}) slow = EXP(-0.25f * part * v[j + 1]);
            v[j] = (v[j] * slow + 0.5f * part * pull) * slow;
        }}
        if (half_done == 0) {{
            {factor} = EXP(-part * v[0]);
            energy *= {factor} * {factor};
            for (int j = 0; j < {length}; ++j)
                {name}_position_out[{length} * s + j] =
                    {name}_position[{length} * s + j] + part * v[j];
        }}
    }}
    for (int j = 0; j < {length}; ++j) {name}_velocity_out[{length} * s + j] = v[j];
}}
"""


def scaled(factor: str) -> str:
    """The sums after all velocities were multiplied with a factor."""
    return f"""
for (int k = 0; k < 6; ++k) squares[k] *= {factor} * {factor};
for (int k = 0; k < 3; ++k) momentum[k] *= {factor};
twice *= {factor} * {factor};
"""


#: The volume of a cell.
VOLUME = """
const float volume = FABS(
    cells[9 * s] * (cells[9 * s + 4] * cells[9 * s + 8] - cells[9 * s + 5] * cells[9 * s + 7])
    + cells[9 * s + 1] * (cells[9 * s + 5] * cells[9 * s + 6] - cells[9 * s + 3] * cells[9 * s + 8])
    + cells[9 * s + 2] * (cells[9 * s + 3] * cells[9 * s + 7] - cells[9 * s + 4] * cells[9 * s + 6])
);
"""


def product(out: str, a: str, b: str) -> str:
    """``out = a b`` for arrays of nine numbers; an index of one of them may begin anywhere."""
    return f"""
for (int r = 0; r < 3; ++r) for (int c = 0; c < 3; ++c) {{
    float sum = 0.0f;
    for (int k = 0; k < 3; ++k) sum += {a.format("3 * r + k")} * {b.format("3 * k + c")};
    {out.format("3 * r + c")} = sum;
}}
"""


def exponential(x: str, power: str, mean: str, terms: int = 4) -> str:
    """Declare e^x and (e^x - 1)/x of an array of nine numbers, summed as series."""
    return f"""
float {power}[9], {mean}[9];
for (int k = 0; k < 9; ++k) {mean}[k] = k % 4 == 0 ? 1.0f : 0.0f;
for (int order = {terms}; order > 1; --order) {{
    float next[9];
{indented(product("next[{}]", x + "[{}]", mean + "[{}]"), 4)}
    for (int k = 0; k < 9; ++k) {mean}[k] = (k % 4 == 0 ? 1.0f : 0.0f) + next[k] / float(order);
}}
{product(power + "[{}]", x + "[{}]", mean + "[{}]")}
for (int k = 0; k < 9; k += 4) {power}[k] += 1.0f;
"""


def planned(name: str, values: dict[int, str], width: int = PLAN) -> str:
    """Write a row of a plan.

    Args:
        name: of the array.
        values: expressions in ``k`` for the elements of A, M, R, D and u, by where they begin.
        width: numbers of a row.
    """
    lines = []
    for start, value in values.items():
        size = 3 if start == U else 9
        lines.append(
            f"for (int k = 0; k < {size}; ++k) {name}[{width} * s + {start} + k] = {value};"
        )
    return "\n".join(lines) + "\n"


def unit(value: str) -> str:
    """A multiple of the unit matrix as an expression in ``k``."""
    return f"(k % 4 == 0 ? {value} : 0.0f)"
