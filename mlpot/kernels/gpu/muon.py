"""Text of the kernels around the orthogonalisation of many matrices.

All matrices lie, wide and filled up with zeros, in one array; those of a class have one size, so
that few products of stacks orthogonalise them. Zeros change nothing: rows and columns of zeros
stay zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import mlx.core as mx

from .dialect import literal
from .generated import GeneratedKernel, running_dialect
from .updates import CUDA_BYTES, METAL_BUFFERS

THREADS = 256
#: Rows are filled up to a multiple of this, columns to one of `COLUMNS`.
ROWS, COLUMNS = 64, 4


class Piece(NamedTuple):
    """A matrix in a flat array.

    Args:
        array: number of the array.
        start: its first entry there.
        n: rows.
        m: columns.
    """

    array: int
    start: int
    n: int
    m: int


@dataclass(frozen=True, eq=False)
class MuonLayout:
    """Where matrices lie in the arrays, and in the array of all.

    Args:
        n_arrays: number of arrays.
        pieces: the matrices; they cover the arrays.
        momentum: decay of the average gradient.
        weight_decay: decoupled decay of the parameters, times the learning rate.
    """

    n_arrays: int
    pieces: tuple[Piece, ...]
    momentum: float
    weight_decay: float
    caches: dict = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        groups: dict[tuple[int, int], list[int]] = {}
        for number, piece in enumerate(self.pieces):
            small, large = sorted((piece.n, piece.m))
            rows = -(-small // ROWS) * ROWS
            # Within a class columns differ by less than a factor of four, of small ones by any.
            kind, bound = 0, 4 * rows if rows <= ROWS else rows
            while large > bound:
                kind, bound = kind + 1, 4 * bound
            groups.setdefault((rows, kind), []).append(number)
        self.caches["classes"], self.caches["places"], first = [], {}, 0
        for (rows, _), members in groups.items():
            widest = max(max(self.pieces[k].n, self.pieces[k].m) for k in members)
            columns = -(-widest // COLUMNS) * COLUMNS
            self.caches["classes"].append((len(members), rows, columns))
            for row, k in enumerate(members):
                own = row * rows * columns
                place = (len(self.caches["classes"]) - 1, own, first + own, rows, columns)
                self.caches["places"][k] = place
            first += len(members) * rows * columns
        self.caches["size"] = first

    @property
    def classes(self) -> list[tuple[int, int, int]]:
        """(matrices, rows, columns) of each stack, in the order of the array of all."""
        return self.caches["classes"]

    def tables(self) -> str:
        """What kernels know of each matrix."""
        places = [self.caches["places"][k] for k in range(len(self.pieces))]
        columns: dict[str, list[int]] = {
            "arrays": [p.array for p in self.pieces],
            "starts": [p.start for p in self.pieces],
            "ns": [p.n for p in self.pieces],
            "ms": [p.m for p in self.pieces],
            "stacks": [place[0] for place in places],
            "inside": [place[1] for place in places],
            "firsts": [place[2] for place in places],
            "rows": [place[3] for place in places],
            "columns": [place[4] for place in places],
        }
        return "".join(
            f"CONSTANT int {name}[{len(values)}] = {{{', '.join(map(str, values))}}};\n"
            for name, values in columns.items()
        )

    def kernel(self, kind: str) -> GeneratedKernel:
        """``muon_gather`` or ``muon_move`` or, with a running average, ``muon_average``."""
        if kind not in self.caches:
            text = _gather(self) if kind == "muon_gather" else _move(self, kind == "muon_average")
            self.caches[kind] = GeneratedKernel(kind, *text, self.tables())
        return self.caches[kind]


def _chain(n: int, statement: str) -> str:
    return " else ".join(f"if (array == {k}) {{{statement.format(k=k)}}}" for k in range(n))


_PIECE = """
    const int piece = BLOCK_X, array = arrays[piece], start = starts[piece];
    const int n = ns[piece], m = ms[piece], size = n * m, width = columns[piece];
"""


def _gather(layout: MuonLayout) -> tuple[list[str], list[str], str]:
    n, own, new = layout.n_arrays, literal(layout.momentum), literal(1 - layout.momentum)
    ahead = (
        f"const float slope = g{{k}}[start + j] * clip;\n"
        f"const float average = {own} * a{{k}}[start + j] + {new} * slope;\n"
        f"const float ahead = {own} * average + {new} * slope;\n"
    )
    first = f"""
        for (int j = THREAD_X; j < size; j += {THREADS}) {{{{
            {ahead}
            a{{k}}_out[start + j] = average;
            sum = FMA(ahead, ahead, sum);
        }}}}"""
    second = f"""
        for (int i = THREAD_X; i < whole; i += {THREADS}) {{{{
            const int r = i / width, c = i % width;
            float value = 0.0f;
            if (r < (n <= m ? n : m) && c < (n <= m ? m : n)) {{{{
                const int j = n <= m ? r * m + c : c * m + r;
                {ahead}
                value = ahead * scale;
            }}}}
            matrices[firsts[piece] + i] = value;
        }}}}"""
    body = f"""
        SHARED float parts[{THREADS // 32}];
        {_PIECE}
        const int whole = rows[piece] * width;
        const float clip = numbers[8];
        float sum = 0.0f;
        {_chain(n, first)}
        sum = SIMD_SUM(sum);
        if (LANE == 0) parts[WARP] = sum;
        BARRIER();
        float squares = 0.0f;
        for (int w = 0; w < {THREADS // 32}; ++w) squares += parts[w];
        const float scale = 1.0f / (SQRT(squares) + 1.0e-7f);
        {_chain(n, second)}
    """
    inputs = [f"g{k}" for k in range(n)] + [f"a{k}" for k in range(n)] + ["numbers"]
    return inputs, [f"a{k}_out" for k in range(n)] + ["matrices"], body


def _move(layout: MuonLayout, averaged: bool) -> tuple[list[str], list[str], str]:
    n, n_stacks = layout.n_arrays, len(layout.classes)
    statement = f"""
        for (int j = THREAD_X; j < size; j += {THREADS}) {{{{
            const int row = j / m, column = j % m;
            const int i = place + (n <= m ? row * width + column : column * width + row);
            float direction = 0.0f;
            {" else ".join(f"if (stack == {s}) direction = x{s}[i];" for s in range(n_stacks))}
            const float moved = p{{k}}[start + j] * kept - length * direction;
            p{{k}}_out[start + j] = moved;
            {
        "e{k}_out[start + j] = numbers[9] * e{k}[start + j] + (1.0f - numbers[9]) * moved;"
        if averaged
        else ""
    }
        }}}}"""
    body = f"""
        {_PIECE}
        const int stack = stacks[piece], place = inside[piece];
        const float kept = 1.0f - rate[0] * {literal(layout.weight_decay)};
        const float length = rate[0] * 0.2f * SQRT(float(n > m ? n : m));
        {_chain(n, statement)}
    """
    inputs = [f"p{k}" for k in range(n)] + [f"e{k}" for k in range(n)] * averaged
    inputs += [f"x{s}" for s in range(n_stacks)] + ["numbers", "rate"]
    outputs = [f"p{k}_out" for k in range(n)] + [f"e{k}_out" for k in range(n)] * averaged
    return inputs, outputs, body


def muon_refusal(layout: MuonLayout) -> str | None:
    """Why the kernels cannot take so many arrays; None if they can."""
    pointers = 4 * layout.n_arrays + len(layout.classes) + 2
    most = METAL_BUFFERS if running_dialect() == "metal" else CUDA_BYTES // 8
    return f"{layout.n_arrays} arrays" if pointers > most else None


def muon_gather(
    layout: MuonLayout, gradients: Sequence[mx.array], averages: Sequence[mx.array], numbers
) -> tuple[list[mx.array], list[mx.array]]:
    """Average gradients, and the stacks of what is to be orthogonalised, each over its size."""
    shapes = [g.shape for g in gradients]
    *moved, matrices = layout.kernel("muon_gather")(
        [g.reshape(-1) for g in (*gradients, *averages)] + [numbers],
        [(g.size,) for g in gradients] + [(layout.caches["size"],)],
        [mx.float32] * (layout.n_arrays + 1),
        blocks=len(layout.pieces),
        threads=THREADS,
    )
    stacks, start = [], 0
    for shape in layout.classes:
        size = shape[0] * shape[1] * shape[2]
        stacks.append(matrices[start : start + size].reshape(shape))
        start += size
    return [a.reshape(shape) for a, shape in zip(moved, shapes, strict=True)], stacks


def muon_move(
    layout: MuonLayout,
    parameters: Sequence[mx.array],
    averages: Sequence[mx.array],
    stacks: Sequence[mx.array],
    numbers: mx.array,
    rate: mx.array,
) -> tuple[list[mx.array], list[mx.array]]:
    """Moved parameters and their running averages (none if none are given)."""
    given = [p.reshape(-1) for p in (*parameters, *averages)]
    found = layout.kernel("muon_average" if averages else "muon_move")(
        [*given, *(x.reshape(-1) for x in stacks), numbers, rate.reshape(1)],
        [a.shape for a in given],
        [mx.float32] * len(given),
        blocks=len(layout.pieces),
        threads=THREADS,
    )
    own = [a.reshape(p.shape) for a, p in zip(found, (*parameters, *averages), strict=True)]
    return own[: layout.n_arrays], own[layout.n_arrays :]
