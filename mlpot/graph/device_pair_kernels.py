"""Lists of pairs on GPUs by a handful of kernels; see `mlpot.graph.DevicePairs`.

    bins       the bin of each atom, and its position within the cell
    search     an atom a thread: its pairs, behind one another in a row of its own
    edges      the rows, moved together, and padding edges behind them
    reverse    for each edge the one in the other direction

A pair is looked at from both of its atoms. Both threads compute its length from the same numbers
in the same way, so either both find it or neither does. Therefore the edges that an atom sends are
the reverse of those that it receives, and no sort is needed to find them; that this holds is
checked for every list.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import mlx.core as mx
import numpy as np

from mlpot.kernels import dispatch, gpu

from .cell_grid import CellGrid
from .matrix_text import HELPERS, inverse

THREADS = 128
#: Whole numbers of a structure: which directions are periodic, bins along each, number of its first
#: bin, which bins must not become too narrow.
_WHOLE = 10
#: Real ones: rows that complete the cell, widths of bins, where they begin.
_REAL = 15
#: What `search` does not take for a finite number.
_HUGE = "3.0e38f"

_ROWS = f"""
    float rows[9];
    for (int k = 0; k < 9; ++k)
        rows[k] = real[{_REAL} * s + k] + cells[9 * s + k] * float(whole[{_WHOLE} * s + k / 3]);
"""
_BINS = f"""
const int i = BLOCK_X * {THREADS} + THREAD_X;
if (i < positions_shape[0]) {{
    const int s = owner[i];
    {_ROWS}
{inverse("dual", "rows")}
    int narrow = 0, wild = 0, inside[3];
    float wrap[3];
    for (int c = 0; c < 3; ++c) {{
        float along = 0.0f, squared = 0.0f;
        for (int k = 0; k < 3; ++k) {{
            along += positions[3 * INDEX(i) + k] * dual[3 * k + c];
            squared += dual[3 * k + c] * dual[3 * k + c];
        }}
        // Not a number compares as false.
        if (!(FABS(along) < {_HUGE})) {{ wild = 1; along = 0.0f; }}
        const bool periodic = whole[{_WHOLE} * s + c] > 0;
        const int bins = whole[{_WHOLE} * s + 3 + c];
        wrap[c] = periodic ? FLOOR(along) : 0.0f;
        float scaled = periodic
            ? (along - wrap[c]) * float(bins)
            : (along - real[{_REAL} * s + 12 + c]) / real[{_REAL} * s + 9 + c];
        scaled = FMIN(FMAX(FLOOR(scaled), 0.0f), float(bins - 1));
        inside[c] = int(scaled);
        const float width = periodic ? 1.0f / float(bins) : real[{_REAL} * s + 9 + c];
        const bool checked = whole[{_WHOLE} * s + 7 + c] > 0;
        if (checked && RSQRT(squared) * width * lengths[1 + c] < lengths[0]) narrow = 1;
    }}
    for (int c = 0; c < 3; ++c) {{
        float moved = positions[3 * INDEX(i) + c];
        for (int k = 0; k < 3; ++k) moved -= wrap[k] * rows[3 * k + c];
        if (!(FABS(moved) < {_HUGE})) wild = 1;
        wrapped[3 * INDEX(i) + c] = moved;
        wraps[3 * INDEX(i) + c] = wrap[c];
        place[3 * INDEX(i) + c] = inside[c];
    }}
    const int across = whole[{_WHOLE} * s + 4], deep = whole[{_WHOLE} * s + 5];
    number[i] = whole[{_WHOLE} * s + 6] + (inside[0] * across + inside[1]) * deep + inside[2];
    flags[i] = narrow + 2 * wild;
}}
"""
# Sets image[3] for an offset of atom i, and whether there is such a bin.
_IMAGE = f"""
    int image[3], inside[3];
    bool there = true;
    for (int c = 0; c < 3; ++c) {{
        const int bins = whole[{_WHOLE} * s + 3 + c];
        const int moved = place[3 * INDEX(i) + c] + offsets[3 * o + c];
        image[c] = 0;
        if (whole[{_WHOLE} * s + c] > 0) image[c] = int(FLOOR(float(moved) / float(bins)));
        inside[c] = moved - image[c] * bins;
        if (inside[c] < 0 || inside[c] >= bins) there = false;
    }}
"""
_SEARCH = f"""
const int i = BLOCK_X * {THREADS} + THREAD_X;
if (i < wrapped_shape[0]) {{
    const int s = owner[i], room = sizes[0], n_offsets = offsets_shape[0];
    {_ROWS}
    const float own0 = wrapped[3 * INDEX(i)], own1 = wrapped[3 * INDEX(i) + 1];
    const float own2 = wrapped[3 * INDEX(i) + 2];
    const float limit = lengths[0] * lengths[0];
    int count = 0, same = 0;
    for (int o = 0; o < n_offsets; ++o) {{
{_IMAGE}
        if (there) {{
            const int across = whole[{_WHOLE} * s + 4], deep = whole[{_WHOLE} * s + 5];
            const int bin = whole[{_WHOLE} * s + 6] + (inside[0] * across + inside[1]) * deep
                + inside[2];
            float shift[3];
            for (int c = 0; c < 3; ++c) {{
                shift[c] = FMA(float(image[0]), rows[c],
                    FMA(float(image[1]), rows[3 + c], float(image[2]) * rows[6 + c]));
            }}
            const bool home = image[0] == 0 && image[1] == 0 && image[2] == 0;
            const bool ahead = image[0] > 0 || (image[0] == 0
                && (image[1] > 0 || (image[1] == 0 && image[2] > 0)));
            for (int q = starts[bin]; q < starts[bin + 1]; ++q) {{
                const int j = ordered[q];
                if (j != i || !home) {{
                    // From the atom of the smaller number to the other, whoever asks.
                    const bool forth = i < j || (i == j && ahead);
                    const float a0 = wrapped[3 * INDEX(j)], a1 = wrapped[3 * INDEX(j) + 1];
                    const float a2 = wrapped[3 * INDEX(j) + 2];
                    const float d0 = ((forth ? a0 : own0) + (forth ? shift[0] : -shift[0]))
                        - (forth ? own0 : a0);
                    const float d1 = ((forth ? a1 : own1) + (forth ? shift[1] : -shift[1]))
                        - (forth ? own1 : a1);
                    const float d2 = ((forth ? a2 : own2) + (forth ? shift[2] : -shift[2]))
                        - (forth ? own2 : a2);
                    const float squared = FMA(d0, d0, FMA(d1, d1, d2 * d2));
                    if (squared < limit) {{
                        if (squared == 0.0f) ++same;
                        if (count < room) {{
                            near_atom[INDEX(i) * room + count] = j;
                            near_offset[INDEX(i) * room + count] = o;
                        }}
                        ++count;
                    }}
                }}
            }}
        }}
    }}
    for (int k = count; k < room; ++k) {{
        near_atom[INDEX(i) * room + k] = 0;
        near_offset[INDEX(i) * room + k] = 0;
    }}
    counts[i] = count;
    equal[i] = same;
}}
"""
_EDGES = f"""
const INDEX task = INDEX(BLOCK_X) * {THREADS} + THREAD_X;
const int room = sizes[0], size = sizes[1], share = sizes[2], n_atoms = counts_shape[0];
const INDEX rows_end = INDEX(n_atoms) * room;
if (task < rows_end) {{
    const int i = int(task / room), k = int(task - INDEX(i) * room);
    const int e = behind[i] - counts[i] + k;
    if (k < counts[i] && e < size) {{
        const int s = owner[i], o = near_offset[task], j = near_atom[task];
{_IMAGE}
        senders[e] = j;
        receivers[e] = i;
        for (int c = 0; c < 3; ++c) {{
            shifts[3 * INDEX(e) + c] = float(image[c])
                + (wraps[3 * INDEX(i) + c] - wraps[3 * INDEX(j) + c]);
        }}
    }}
}} else if (task < rows_end + size) {{
    const int e = int(task - rows_end);
    // Beyond what a row holds there is nothing to move: such a list is thrown away.
    if (e >= filled[0]) {{
        senders[e] = n_atoms + e / share;
        receivers[e] = n_atoms + e / share;
        for (int c = 0; c < 3; ++c) shifts[3 * INDEX(e) + c] = c == 0 ? 1.0f : 0.0f;
    }}
}}
"""
_REVERSE = f"""
const int e = BLOCK_X * {THREADS} + THREAD_X;
if (e < senders_shape[0]) {{
    const int i = receivers[e], j = senders[e];
    int found = -1;
    if (i == j && e >= filled[0]) found = e;
    else for (int q = pointers[j]; q < pointers[j + 1]; ++q) {{
        bool back = senders[q] == i;
        for (int c = 0; c < 3; ++c)
            back = back && shifts[3 * INDEX(q) + c] + shifts[3 * INDEX(e) + c] == 0.0f;
        if (back) found = q;
    }}
    perm[e] = found < 0 ? e : found;
    alone[e] = found < 0 ? 1 : 0;
}}
"""
_KERNELS = {
    "pair_bins": (
        ["positions", "cells", "owner", "whole", "real", "lengths"],
        ["number", "place", "wraps", "wrapped", "flags"],
        _BINS,
    ),
    "pair_search": (
        [
            *("wrapped", "place", "cells", "owner", "whole", "real", "lengths"),
            *("offsets", "ordered", "starts", "sizes"),
        ],
        ["near_atom", "near_offset", "counts", "equal"],
        _SEARCH,
    ),
    "pair_edges": (
        [
            *("near_atom", "near_offset", "counts", "behind", "filled", "place", "wraps"),
            *("owner", "whole", "offsets", "sizes"),
        ],
        ["senders", "receivers", "shifts"],
        _EDGES,
    ),
    "pair_reverse": (
        ["senders", "receivers", "shifts", "pointers", "filled"],
        ["perm", "alone"],
        _REVERSE,
    ),
}


@cache
def _kernel(name: str) -> gpu.GeneratedKernel:
    inputs, outputs, body = _KERNELS[name]
    header = HELPERS if name == "pair_bins" else ""
    return gpu.GeneratedKernel(name, inputs, outputs, body, header)


def takes_search(positions: mx.array, tasks: int) -> bool:
    """Whether kernels can search pairs of these positions here.

    Args:
        positions: (n_atoms, 3).
        tasks: room for pairs, of all atoms and of the list.
    """

    def check() -> str | None:
        refused = gpu.refusal(positions, types=(mx.float32,))
        return refused or gpu.grid_refusal(-(-tasks // THREADS), THREADS) or gpu.unmeasured()

    return dispatch.choose("pairs", gpu.offers(check)) in gpu.DIALECTS


class Found(NamedTuple):
    """A list of pairs, lazily; all int32 but for the shifts.

    Args:
        senders, receivers: (n_edges,).
        shifts: (n_edges, 3) float32.
        pointers: (n_atoms + n_padding + 1,), of receivers and, by ``perm``, of senders.
        perm: (n_edges,), the reverse of each edge.
        needed: (5,), see `mlpot.graph.DevicePairs.build`, but with the most pairs of an atom in
            the place of the fullest bin; and 1 behind if an edge has no reverse.
    """

    senders: mx.array
    receivers: mx.array
    shifts: mx.array
    pointers: mx.array
    perm: mx.array
    needed: mx.array


class PairKernels:
    """Searches pairs of a system whose cells are divided into bins.

    Args:
        grid: the bins.
        node_graph: (n_atoms,) structure of each atom.
        pbc: (n_graphs, 3).
    """

    def __init__(self, grid: CellGrid, node_graph: np.ndarray, pbc: np.ndarray) -> None:
        whole = np.column_stack([pbc, grid.bins, grid.first, grid.checked]).astype(np.int32)
        real = np.column_stack([grid.full.reshape(-1, 9), grid.widths, grid.origins])
        self._n_bins = grid.n_bins
        self._arrays = {
            "whole": mx.array(whole),
            "real": mx.array(real.astype(np.float32)),
            "lengths": mx.array(np.array([grid.radius, *grid.reach], np.float32)),
            "owner": mx.array(node_graph.astype(np.int32)),
            "offsets": mx.array(grid.offsets.astype(np.int32)),
        }
        mx.eval(self._arrays)

    def _run(self, name: str, tasks: int, outputs: list, **arrays: mx.array) -> list[mx.array]:
        arrays |= self._arrays
        return _kernel(name)(
            [arrays[name] for name in _KERNELS[name][0]],
            [shape for shape, _ in outputs],
            [dtype for _, dtype in outputs],
            blocks=-(-tasks // THREADS),
            threads=THREADS,
        )

    def search(
        self, positions: mx.array, cells: mx.array, room: int, size: int, n_padding: int
    ) -> Found:
        """All pairs.

        Args:
            positions: (n_atoms, 3), Angstrom.
            cells: (n_graphs, 3, 3), Angstrom.
            room: pairs that an atom may have.
            size: of the list, padding edges included.
            n_padding: padding atoms, which share the padding edges.
        """
        n, whole, real = positions.shape[0], mx.int32, mx.float32
        share = -(-size // n_padding)
        sizes = mx.array([room, size, share], dtype=mx.int32)
        number, place, wraps, wrapped, flags = self._run(
            "pair_bins",
            n,
            [((n,), whole), ((n, 3), whole), ((n, 3), real), ((n, 3), real), ((n,), whole)],
            positions=positions,
            cells=cells,
        )
        ordered = mx.argsort(number).astype(mx.int32)
        starts = gpu.segment_starts(mx.take(number, ordered), self._n_bins)
        near_atom, near_offset, counts, equal = self._run(
            "pair_search",
            n,
            [((n, room), whole), ((n, room), whole), ((n,), whole), ((n,), whole)],
            wrapped=wrapped,
            place=place,
            cells=cells,
            ordered=ordered,
            starts=starts,
            sizes=sizes,
        )
        fullest, total = counts.max(), counts.sum()
        # What an atom has no room for is not there to be moved.
        counts = mx.minimum(counts, room)
        behind = mx.cumsum(counts)
        filled = mx.minimum(behind[-1:], size)
        senders, receivers, shifts = self._run(
            "pair_edges",
            n * room + size,
            [((size,), whole), ((size,), whole), ((size, 3), real)],
            near_atom=near_atom,
            near_offset=near_offset,
            counts=counts,
            behind=behind,
            filled=filled,
            place=place,
            wraps=wraps,
            sizes=sizes,
        )
        least = np.minimum(np.arange(1, n_padding + 1) * share, size).astype(np.int32)
        tail = mx.maximum(filled, mx.array(least))
        zero = mx.zeros((1,), dtype=mx.int32)
        pointers = mx.concatenate([zero, mx.minimum(behind, size), tail])
        perm, alone = self._run(
            "pair_reverse",
            size,
            [((size,), whole), ((size,), whole)],
            senders=senders,
            receivers=receivers,
            shifts=shifts,
            pointers=pointers,
            filled=filled,
        )
        flags = mx.stack([flags & 1, flags >> 1]).max(axis=1)
        needed = [total, fullest, flags[0], equal.sum(), flags[1], alone.max()]
        needed = mx.stack([number.astype(mx.int32) for number in needed])
        return Found(senders, receivers, shifts, pointers, perm, needed)
