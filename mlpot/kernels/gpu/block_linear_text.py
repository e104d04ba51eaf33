"""Texts of the kernels of linear maps between blocks."""

from __future__ import annotations

#: Rows and columns of a tile of the result, and factors brought into shared memory at a time.
TILE = 32
TILE_THREADS = 128
#: Rows of each thread.
ROWS = TILE * TILE // TILE_THREADS

# One column more than the tile, so that neither reading rows nor columns meets one bank twice.
_PITCH = TILE + 1

_SHARED = f"""
    SHARED float a[{TILE * _PITCH}];
    SHARED float b[{TILE * _PITCH}];
"""


def _each_row(line: str) -> str:
    return "\n".join(line.replace("$", str(r)) for r in range(ROWS))


def _staging(name: str, place: str, value: str) -> str:
    """Fill a tile: ``major`` and ``minor`` number its elements, neighbours in minor."""
    return f"""
        for (int i = 0; i < {ROWS}; ++i) {{
            const int element = THREAD_X + {TILE_THREADS} * i;
            const int major = element / {TILE}, minor = element % {TILE};
            float value = 0.0f;
            {value}
            {name}[{place}] = value;
        }}
    """


def _product(of_a: str) -> str:
    """Add the product of the two tiles; ``of_a``: element of a for row $ of a thread."""
    lines = _each_row(f"sum$ = FMA(a[{of_a}], value, sum$);")
    return f"""
        BARRIER();
        for (int q = 0; q < {TILE}; ++q) {{
            const float value = b[q * {_PITCH} + LANE];
            {lines}
        }}
        BARRIER();
    """


def rows_text(target: str, with_y: bool, word: str) -> str:
    """Maps with a row for each item: to "out" from x, to "x" from g.

    A product runs over q, pairs of a feature and a scalar: (u, v) for "out", (v, c) for "x", so
    that q counts up as the weights lie in memory.
    """
    if target == "out":
        features, feature, scalar = "x", "q / n_y", "q % n_y"
        weight, of_b = "w_offset + q * columns + column", f"major * {_PITCH} + minor"
        q_of_b, column_of_b = "major", "minor"
    else:
        features, feature, scalar = "g", "q % mul", "q / mul"
        weight, of_b = "w_offset + column * depth + q", f"minor * {_PITCH} + major"
        q_of_b, column_of_b = "minor", "major"
    times_y = f"value *= float(LOAD(y, item * y_shape[1] + y_offset + {scalar}));" if with_y else ""
    stage_a = _staging(
        "a",
        f"major * {_PITCH} + minor",
        f"""
            const INDEX row = first_row + major;
            const int q = start + minor;
            if (row < n_rows && q < depth) {{
                const INDEX item = row / d;
                const int k = int(row - item * d), place = offset + k * mul + {feature};
                value = float(LOAD({features}, item * {features}_shape[1] + place));
                {times_y}
            }}
        """,
    )
    stage_b = _staging(
        "b",
        of_b,
        f"""
            const int q = start + {q_of_b}, column = first_column + {column_of_b};
            if (q < depth && column < columns) value = factor * float(LOAD(w, {weight}));
        """,
    )
    store = _each_row(
        f"""
        if (first_row + {ROWS} * WARP + $ < n_rows && first_column + LANE < columns) {{
            const INDEX row = first_row + {ROWS} * WARP + $, item = row / d;
            const int k = int(row - item * d);
            out[item * width + out_offset + k * columns + first_column + LANE] = {word}(sum$);
        }}"""
    )
    return f"""{_SHARED}
        INDEX tile = BLOCK_X;
        int block = 0;
        for (; block < blocks_shape[0] - 1; ++block) {{
            const INDEX rows = {features}_shape[0] * INDEX(blocks[6 * block + 2]);
            const INDEX down = (rows + {TILE - 1}) / {TILE};
            const INDEX n_tiles = down * ((blocks[6 * block + 1] + {TILE - 1}) / {TILE});
            if (tile < n_tiles) break;
            tile -= n_tiles;
        }}
        const int out_offset = blocks[6 * block], columns = blocks[6 * block + 1];
        const int d = blocks[6 * block + 2], width = blocks[6 * block + 5];
        const INDEX n_rows = {features}_shape[0] * INDEX(d);
        const int across = (columns + {TILE - 1}) / {TILE};
        const INDEX first_row = tile / across * {TILE};
        const int first_column = int(tile % across) * {TILE};
        {_each_row("float sum$ = 0.0f;")}
        for (int term = blocks[6 * block + 3]; term < blocks[6 * block + 4]; ++term) {{
            const int offset = terms[5 * term], mul = terms[5 * term + 1];
            const int y_offset = terms[5 * term + 2], n_y = terms[5 * term + 3];
            const INDEX w_offset = terms[5 * term + 4];
            const float factor = factors[term];
            const int depth = mul * n_y;
            for (int start = 0; start < depth; start += {TILE}) {{
                {stage_a}
                {stage_b}
                {_product(f"({ROWS} * WARP + $) * {_PITCH} + q")}
            }}
        }}
        {store}
    """


def weights_text(with_y: bool, word: str) -> str:
    """The gradient to the weights: sums over rows (n, k), a part of them in each block.

    ``word`` is the type of the inputs; the parts are float32.
    """
    times_y = "value *= float(LOAD(y, item * y_shape[1] + y_offset + q % n_y));" if with_y else ""
    row = """
            const INDEX row = start + major;
            const INDEX item = row / d;
            const int k = int(row - item * d);
    """
    stage_a = _staging(
        "a",
        f"major * {_PITCH} + minor",
        f"""
            const int q = first_q + minor;
            if (start + major < end_row && q < depth) {{
                {row}
                const int place = x_offset + k * mul_in + q / n_y;
                value = float(LOAD(x, item * x_shape[1] + place));
                {times_y}
            }}
        """,
    )
    stage_b = _staging(
        "b",
        f"major * {_PITCH} + minor",
        f"""
            const int column = first_column + minor;
            if (start + major < end_row && column < mul_out) {{
                {row}
                value = float(LOAD(g, item * g_shape[1] + g_offset + k * mul_out + column));
            }}
        """,
    )
    store = _each_row(
        f"""
        if (first_q + {ROWS} * WARP + $ < depth && first_column + LANE < mul_out) {{
            const INDEX place = INDEX(first_q + {ROWS} * WARP + $) * mul_out + first_column + LANE;
            out[part * paths[9 * path + 8] + w_offset + place] = factors[path] * sum$;
        }}"""
    )
    return f"""{_SHARED}
        const INDEX part = BLOCK_X % n_parts[0];
        INDEX tile = BLOCK_X / n_parts[0];
        int path = 0;
        for (; path < paths_shape[0] - 1; ++path) {{
            const INDEX down = (paths[9 * path + 2] * paths[9 * path + 4] + {TILE - 1}) / {TILE};
            const INDEX n_tiles = down * ((paths[9 * path + 6] + {TILE - 1}) / {TILE});
            if (tile < n_tiles) break;
            tile -= n_tiles;
        }}
        const INDEX w_offset = paths[9 * path];
        const int x_offset = paths[9 * path + 1], mul_in = paths[9 * path + 2];
        const int y_offset = paths[9 * path + 3], n_y = paths[9 * path + 4];
        const int g_offset = paths[9 * path + 5], mul_out = paths[9 * path + 6];
        const int d = paths[9 * path + 7], depth = mul_in * n_y;
        const int across = (mul_out + {TILE - 1}) / {TILE};
        const int first_q = int(tile / across) * {TILE}, first_column = int(tile % across) * {TILE};
        const INDEX n_rows = x_shape[0] * INDEX(d);
        const INDEX share = (n_rows + n_parts[0] - 1) / n_parts[0];
        const INDEX end_row = (part + 1) * share < n_rows ? (part + 1) * share : n_rows;
        {_each_row("float sum$ = 0.0f;")}
        for (INDEX start = part * share; start < end_row; start += {TILE}) {{
            {stage_a}
            {stage_b}
            {_product(f"q * {_PITCH} + {ROWS} * WARP + $")}
        }}
        {store}
    """


def scalars_text(word: str) -> str:
    """The gradient to the scalars y: one thread a scalar of an item."""
    return f"""
        const int element = GLOBAL_X;
        if (element < x_shape[0] * dim_y[0]) {{
            const INDEX item = element / dim_y[0];
            const int scalar = int(element - item * dim_y[0]);
            float total = 0.0f;
            for (int path = 0; path < paths_shape[0]; ++path) {{
                const int v = scalar - paths[9 * path + 3], n_y = paths[9 * path + 4];
                const int mul_in = paths[9 * path + 2], mul_out = paths[9 * path + 6];
                const int d = paths[9 * path + 7];
                if (d == 0 || v < 0 || v >= n_y) continue;
                float sum = 0.0f;
                for (int k = 0; k < d; ++k) {{
                    const INDEX of_x = item * x_shape[1] + paths[9 * path + 1] + k * mul_in;
                    const INDEX of_g = item * g_shape[1] + paths[9 * path + 5] + k * mul_out;
                    for (int u = 0; u < mul_in; ++u) {{
                        const INDEX of_w = paths[9 * path] + INDEX(u * n_y + v) * mul_out;
                        float inner = 0.0f;
                        for (int c = 0; c < mul_out; ++c)
                            inner += float(LOAD(w, of_w + c)) * float(LOAD(g, of_g + c));
                        sum += float(LOAD(x, of_x + u)) * inner;
                    }}
                }}
                total += factors[path] * sum;
            }}
            out[element] = {word}(total);
        }}
    """
