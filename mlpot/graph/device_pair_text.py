"""The texts of the kernels that list pairs on GPUs; see `mlpot.graph.device_pair_kernels`.

pair_bins       the bin of each atom, and its position within the cell
pair_search     an atom a thread: its pairs, behind one another in a row of its own
pair_edges      the rows, moved together, and padding edges behind them
pair_reverse    for each edge the one in the other direction
"""

from __future__ import annotations

from .matrix_text import inverse

THREADS = 128
#: Whole numbers of a structure: which directions are periodic, bins along each, number of its first
#: bin, which bins must not become too narrow.
WHOLE = 10
#: Real ones: rows that complete the cell, widths of bins, where they begin.
REAL = 15
#: What `search` does not take for a finite number.
_HUGE = "3.0e38f"

_ROWS = f"""
    float rows[9];
    for (int k = 0; k < 9; ++k)
        rows[k] = real[{REAL} * s + k] + cells[9 * s + k] * float(whole[{WHOLE} * s + k / 3]);
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
        const bool periodic = whole[{WHOLE} * s + c] > 0;
        const int bins = whole[{WHOLE} * s + 3 + c];
        wrap[c] = periodic ? FLOOR(along) : 0.0f;
        float scaled = periodic
            ? (along - wrap[c]) * float(bins)
            : (along - real[{REAL} * s + 12 + c]) / real[{REAL} * s + 9 + c];
        scaled = FMIN(FMAX(FLOOR(scaled), 0.0f), float(bins - 1));
        inside[c] = int(scaled);
        const float width = periodic ? 1.0f / float(bins) : real[{REAL} * s + 9 + c];
        const bool checked = whole[{WHOLE} * s + 7 + c] > 0;
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
    const int across = whole[{WHOLE} * s + 4], deep = whole[{WHOLE} * s + 5];
    number[i] = whole[{WHOLE} * s + 6] + (inside[0] * across + inside[1]) * deep + inside[2];
    flags[i] = narrow + 2 * wild;
}}
"""
# Sets image[3] for an offset of atom i, and whether there is such a bin.
_IMAGE = f"""
    int image[3], inside[3];
    bool there = true;
    for (int c = 0; c < 3; ++c) {{
        const int bins = whole[{WHOLE} * s + 3 + c];
        const int moved = place[3 * INDEX(i) + c] + offsets[3 * o + c];
        image[c] = 0;
        if (whole[{WHOLE} * s + c] > 0) image[c] = int(FLOOR(float(moved) / float(bins)));
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
            const int across = whole[{WHOLE} * s + 4], deep = whole[{WHOLE} * s + 5];
            const int bin = whole[{WHOLE} * s + 6] + (inside[0] * across + inside[1]) * deep
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
#: Inputs, outputs and body by name.
KERNELS = {
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
