"""How far a list of pairs falls short, atom by atom, by one kernel on GPUs.

What `Pairs.excess` says, in tens of operations on a few matrices, which a GPU waits for longer than
it computes. Here each atom's thread makes the matrices of its own structure.
"""

from __future__ import annotations

from functools import cache

import mlx.core as mx
from jaxtyping import Float, Int

from mlpot.kernels import dispatch, gpu

from .matrix_text import HELPERS, inverse, product

THREADS = 256

#: What an atom that is nowhere exceeds every list by, Angstrom.
_FAR = 1e6

_STILL = f"""
const int i = BLOCK_X * {THREADS} + THREAD_X;
if (i < positions_shape[0]) {{
    float squared = 0.0f;
    for (int k = 0; k < 3; ++k) {{
        const float away = positions[3 * INDEX(i) + k] - reference[3 * INDEX(i) + k];
        squared += away * away;
    }}
    const float short_by = 2.0f * SQRT(squared) - lengths[1];
    // Not a number compares as false.
    excess[i] = short_by < {_FAR}f ? short_by : {_FAR}f;
}}
"""
_STRAINED = f"""
const int i = BLOCK_X * {THREADS} + THREAD_X;
if (i < positions_shape[0]) {{
    const int s = owner[i];
    float before[9], now[9];
    for (int k = 0; k < 9; ++k) {{
        // Rows of open directions carry no edges: any full-rank choice that both share.
        const float filler = k % 4 == 0 ? 1.0f - periodic[3 * s + k / 3] : 0.0f;
        before[k] = reference_cells[9 * s + k] + filler;
        now[k] = cells[9 * s + k] + filler;
    }}
{inverse("then_back", "before")}
{inverse("now_back", "now")}
{product("back", "now_back", "before")}
{product("forth", "then_back", "now")}
    float strain = 0.0f;
    for (int k = 0; k < 9; ++k) {{
        const float away = back[k] - (k % 4 == 0 ? 1.0f : 0.0f);
        strain += away * away;
    }}
    float squared = 0.0f;
    for (int c = 0; c < 3; ++c) {{
        float mapped = 0.0f;
        for (int k = 0; k < 3; ++k) mapped += reference[3 * INDEX(i) + k] * forth[3 * k + c];
        const float away = positions[3 * INDEX(i) + c] - mapped;
        squared += away * away;
    }}
    const float reach = (1.0f + SQRT(strain)) * (lengths[0] + 2.0f * SQRT(squared));
    const float short_by = reach - (lengths[0] + lengths[1]);
    excess[i] = short_by < {_FAR}f ? short_by : {_FAR}f;
}}
"""


@cache
def _kernel(strained: bool) -> gpu.GeneratedKernel:
    if not strained:
        inputs = ["positions", "reference", "lengths"]
        return gpu.GeneratedKernel("list_excess", inputs, ["excess"], _STILL)
    inputs = ["positions", "reference", "cells", "reference_cells", "periodic", "owner", "lengths"]
    return gpu.GeneratedKernel("list_excess_strained", inputs, ["excess"], _STRAINED, HELPERS)


def takes_excess(positions: mx.array) -> bool:
    """Whether the kernel can look at these positions here."""

    def check() -> str | None:
        blocks = -(-positions.shape[0] // THREADS)
        refused = gpu.refusal(positions, types=(mx.float32,))
        return refused or gpu.grid_refusal(blocks, THREADS) or gpu.unmeasured()

    return dispatch.choose("list_excess", gpu.offers(check)) in gpu.DIALECTS


def worst_excess(
    positions: Float[mx.array, "n_atoms 3"],
    reference: Float[mx.array, "n_atoms 3"],
    skin: float,
    cutoff: float = 0.0,
    cells: Float[mx.array, "n_graphs 3 3"] | None = None,
    reference_cells: Float[mx.array, "n_graphs 3 3"] | None = None,
    periodic: Float[mx.array, "n_graphs 3"] | None = None,
    owner: Int[mx.array, " n_atoms"] | None = None,
) -> mx.array:
    """As `Pairs.excess`, or `Pairs.excess_of_positions` where no cells are given; a scalar.

    Ask `takes_excess` first.
    """
    lengths = mx.array([cutoff, skin], dtype=mx.float32)
    arrays = [positions, reference]
    if cells is not None:
        assert reference_cells is not None and periodic is not None and owner is not None
        arrays += [cells, reference_cells, periodic, owner]
    n_atoms = positions.shape[0]
    (found,) = _kernel(cells is not None)(
        [*arrays, lengths],
        [(n_atoms,)],
        [mx.float32],
        blocks=-(-n_atoms // THREADS),
        threads=THREADS,
    )
    return found.max()
