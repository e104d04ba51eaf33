"""The adjoint to a table of weights from that to the weights, by edges in the order of their rows.

    table_bar[r, :] = sum over edges e and m < M with rows[e] + m = r of h[e, m] w_bar[e, :]

(see `mlpot.kernels.edge_weights`). Edges sorted by row are cut into chunks of a fixed number of
places, so every block has the same amount of work however full a row is. A thread has M sums of a
few columns in registers, and writes them where the row changes, to a slot for each chunk and row
that meet: chunk + row grows with every step from one to the next, so slots never collide. A second
kernel adds the slots of a row in their order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import mlx.core as mx
from jaxtyping import Float, Int

from .convolution_kernels import widest
from .dialect import WORD_OF_TYPE
from .generated import GeneratedKernel
from .segment import segment_starts
from .vectors import read, write

#: Threads of a block; each has neighbouring columns.
THREADS = 128
#: Fewest places of a chunk. It doubles until the sums of all slots fit the bytes below.
FEWEST_PLACES = 64
SLOTS_BYTES = 256 * 2**20
#: Places whose weights are read ahead of their use.
PLACES_AT_A_TIME = 4


@dataclass(frozen=True)
class RowOrder:
    """Edges in the order of their rows.

    Args:
        rows: (n_edges,) int32, first row of each edge.
        perm: (n_edges,) int32, the edge at each place.
        ptr: (n_firsts + 1,) int32, places of the edges that start at a row.
    """

    rows: Int[mx.array, " n_edges"]
    perm: Int[mx.array, " n_edges"]
    ptr: Int[mx.array, " n_ptr"]

    @classmethod
    def of(cls, rows: Int[mx.array, " n_edges"], n_firsts: int) -> RowOrder:
        """Sort edges by row."""
        perm = mx.argsort(rows).astype(mx.int32)
        return cls(rows, perm, segment_starts(mx.take(rows, perm), n_firsts))

    @property
    def n_edges(self) -> int:
        """Number of edges."""
        return self.rows.shape[0]

    @property
    def n_firsts(self) -> int:
        """Rows that edges can start at."""
        return self.ptr.shape[0] - 1


def _names(stem: str, width: int) -> list[str]:
    return [f"{stem}_{v}" for v in range(width)]


def _bounded(value: str) -> str:
    """A row that edges can start at; edges whose rows do not exist count for nothing there."""
    return f"({value} < 0 ? 0 : {value} < n_firsts ? {value} : n_firsts - 1)"


@cache
def slots_kernel(n_coefficients: int, width: int, places: int) -> GeneratedKernel:
    """Sums of each row within each chunk: slots (chunk + row, m, column), zero where none meet.

    Args:
        n_coefficients: columns of h.
        width: columns of a thread.
        places: of a chunk.
    """
    stems = [f"a{m}" for m in range(n_coefficients)]
    stores = "\n".join(
        write(_names(s, width), "slots", f"slot + INDEX({m}) * n_weights", "float")
        for m, s in enumerate(stems)
    )
    declared = "\n".join(
        f"float {', '.join(f'{n} = 0.0f' for n in _names(s, width))};" for s in stems
    )
    zeros = " ".join(f"{n} = 0.0f;" for s in stems for n in _names(s, width))
    # The sums of the row so far, then zeros for rows between that no edge starts at.
    store_until = f"""for (; current < next; ++current) {{
        const INDEX slot = (INDEX(chunk) + current) * ({n_coefficients} * n_weights) + column;
        {stores}
        {zeros}
      }}"""
    ahead, steps = [], []
    for u in range(PLACES_AT_A_TIME):
        row_of_w = f"INDEX(e{u}) * n_weights + column"
        ahead += [
            f"const int at{u} = first + {u} < stop ? first + {u} : stop - 1;",
            f"const int e{u} = LOAD(row_perm, at{u}), row{u} = LOAD(rows, e{u});",
            read(_names(f"g{u}", width), "w_bar", row_of_w, stream=True),
        ]
        steps += [
            f"if (first + {u} < stop) {{",
            f"const int next = {_bounded(f'row{u}')};",
            store_until,
            f"const bool counts = next == row{u};",
        ]
        for m, stem in enumerate(stems):
            coefficient = f"float(LOAD(h, INDEX(e{u}) * {n_coefficients} + {m}))"
            steps.append(f"const float h{m} = counts ? {coefficient} : 0.0f;")
            steps += [f"{stem}_{v} += h{m} * g{u}_{v};" for v in range(width)]
        steps.append("}")
    lines = "\n      ".join([*ahead, *steps])
    body = f"""
const int n_edges = rows_shape[0], n_firsts = row_ptr_shape[0] - 1, n_weights = w_bar_shape[1];
const int tiles = (n_weights + {THREADS * width - 1}) / {THREADS * width};
const int chunk = BLOCK_X / tiles;
const int column = ((BLOCK_X - chunk * tiles) * {THREADS} + THREAD_X) * {width};
if (column < n_weights) {{
  const int start = chunk * {places};
  const int stop = start + {places} < n_edges ? start + {places} : n_edges;
  // A chunk has the slots from its first row on, up to those of the next chunk's first row.
  int current = 0, last = n_firsts - 1;
  if (chunk > 0) {{
    const int row = LOAD(rows, LOAD(row_perm, start));
    current = {_bounded("row")};
  }}
  if (stop < n_edges) {{
    const int row = LOAD(rows, LOAD(row_perm, stop));
    last = {_bounded("row")};
  }}
  {declared}
  for (int first = start; first < stop; first += {PLACES_AT_A_TIME}) {{
      {lines}
  }}
  const int next = last + 1;
  {store_until}
}}
"""
    return GeneratedKernel(
        "table_slots",
        ["h", "w_bar", "rows", "row_perm", "row_ptr"],
        ["slots"],
        body,
        "VECTOR_WORDS\n",
        ["w_bar"],
    )


@cache
def rows_kernel(n_coefficients: int, width: int, places: int, word: str) -> GeneratedKernel:
    """Slots added to the rows of the table that they belong to."""
    totals, terms = _names("sum", width), _names("term", width)
    body = f"""
const int n_weights = slots_shape[2], columns = n_weights / {width};
const int n_firsts = row_ptr_shape[0] - 1;
const int item = GLOBAL_X;
const int row = item / columns, column = (item - row * columns) * {width};
if (row < n_firsts + {n_coefficients - 1}) {{
  float {", ".join(f"{t} = 0.0f" for t in totals)};
  for (int m = 0; m < {n_coefficients}; ++m) {{
    const int first = row - m;
    if (first >= 0 && first < n_firsts) {{
      const int start = LOAD(row_ptr, first), stop = LOAD(row_ptr, first + 1);
      if (start < stop) {{
        for (int chunk = start / {places}; chunk <= (stop - 1) / {places}; ++chunk) {{
          const INDEX place = ((INDEX(chunk) + first) * {n_coefficients} + m) * n_weights + column;
          {read(terms, "slots", "place", stream=True)}
          {" ".join(f"{a} += {b};" for a, b in zip(totals, terms, strict=True))}
        }}
      }}
    }}
  }}
  {write(totals, "table_bar", "INDEX(row) * n_weights + column", word)}
}}
"""
    names = ["slots", "row_ptr"]
    return GeneratedKernel("table_rows", names, ["table_bar"], body, "VECTOR_WORDS\n")


def places_of_chunk(n_edges: int, n_sums: int) -> int:
    """Places of a chunk where each slot has so many sums."""
    places = FEWEST_PLACES
    while places < n_edges and -(-n_edges // places) * n_sums * 4 > SLOTS_BYTES:
        places *= 2
    return places


def adjoint_to_table(
    h: Float[mx.array, "n_edges n_coefficients"],
    w_bar: Float[mx.array, "n_edges n_weights"],
    order: RowOrder,
) -> Float[mx.array, "n_rows n_weights"]:
    """Sums over edges of h times w_bar for each row of the table, values only.

    Args:
        h: (n_edges, M) coefficients.
        w_bar: (n_edges, n_weights) adjoint to the weights.
        order: of the edges. Those whose rows do not exist count for nothing.

    Returns:
        (n_firsts + M - 1, n_weights).
    """
    n_coefficients, n_weights = h.shape[1], w_bar.shape[1]
    width = widest(n_weights)
    places = places_of_chunk(order.n_edges, n_coefficients * n_weights)
    n_chunks = -(-order.n_edges // places)
    (slots,) = slots_kernel(n_coefficients, width, places)(
        [h, w_bar, order.rows, order.perm, order.ptr],
        [(n_chunks + order.n_firsts - 1, n_coefficients, n_weights)],
        [mx.float32],
        blocks=n_chunks * -(-n_weights // (THREADS * width)),
        threads=THREADS,
    )
    n_rows = order.n_firsts + n_coefficients - 1
    (table_bar,) = rows_kernel(n_coefficients, width, places, WORD_OF_TYPE[h.dtype])(
        [slots, order.ptr],
        [(n_rows, n_weights)],
        [h.dtype],
        blocks=-(-n_rows * (n_weights // width) // THREADS),
        threads=THREADS,
    )
    return table_bar
