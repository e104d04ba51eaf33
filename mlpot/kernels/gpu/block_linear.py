"""Linear maps between blocks: one kernel for a whole layer, whatever its blocks.

Each of the maps is a sum of matrix products with the rows (n, k) of a block, so a block of threads
computes a tile of 32 rows and 32 columns: it brings 32 columns of the factors at a time into shared
memory, and each thread adds up 8 rows of one column. Blocks and paths come in as tables, so that
the same few kernels serve all layers. What no path leads to is a block without terms: zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import numpy as np

from .block_linear_text import TILE, TILE_THREADS, rows_text, scalars_text, weights_text
from .dialect import WORD_OF_TYPE
from .generated import GeneratedKernel, grid_refusal
from .refusals import refusal

if TYPE_CHECKING:
    from ..block_linear import LinearSpec

#: Rows that one block sums for the gradient to the weights; more are split, the parts summed.
ROWS_OF_PART = 2048
#: Most parts.
MOST_PARTS = 64
SCALAR_THREADS = 64


@dataclass(frozen=True)
class _Tables:
    """Blocks, terms and factors for one target, as the kernels read them."""

    blocks: np.ndarray
    arrays: list[mx.array]


def _gaps(covered: Sequence[tuple[int, int]], size: int) -> list[tuple[int, int]]:
    """(start, length) of what the ranges (start, end) leave out of 0..size."""
    found, at = [], 0
    for start, end in sorted(set(covered)):
        if start > at:
            found.append((at, start - at))
        at = max(at, end)
    return [*found, (at, size - at)] if at < size else found


def _rows_tables(spec: LinearSpec, target: str) -> _Tables:
    """Rows: offset, columns, components, first and last term, width of the result; terms below."""
    to_out = target == "out"
    by_block: dict[tuple[int, int, int], list] = {}
    for p in spec.paths:
        block = (p.out_offset, p.mul_out, p.d) if to_out else (p.x_offset, p.mul_in, p.d)
        by_block.setdefault(block, []).append(p)
    width = spec.dim_out if to_out else spec.dim_x
    covered = [(offset, offset + columns * d) for offset, columns, d in by_block]
    for start, length in _gaps(covered, width):
        by_block[start, length, 1] = []
    blocks, terms, factors = [], [], []
    for (offset, columns, d), paths in by_block.items():
        blocks.append((offset, columns, d, len(terms), len(terms) + len(paths), width))
        for p in paths:
            of_features = (p.x_offset, p.mul_in) if to_out else (p.out_offset, p.mul_out)
            terms.append((*of_features, p.y_offset, p.n_y, p.w_offset))
            factors.append(p.factor)
    return _tables(blocks, terms or [(0,) * 5], factors or [0.0])


def _paths_tables(spec: LinearSpec) -> _Tables:
    """Paths: w_offset, x_offset, mul_in, y_offset, n_y, out_offset, mul_out, d, n_weights."""
    paths = [
        (p.w_offset, p.x_offset, p.mul_in, p.y_offset, p.n_y, p.out_offset, p.mul_out, p.d)
        for p in spec.paths
    ]
    covered = [(p[0], p[0] + p[2] * p[4] * p[6]) for p in paths]
    gaps = [(start, 0, length, 0, 1, 0, 1, 0) for start, length in _gaps(covered, spec.n_weights)]
    rows = [(*row, spec.n_weights) for row in [*paths, *gaps]]
    return _tables(rows, None, [*(p.factor for p in spec.paths), *(0.0 for _ in gaps)])


def _tables(blocks: list, terms: list | None, factors: list) -> _Tables:
    host = np.array(blocks, dtype=np.int32)
    arrays = [mx.array(host)]
    if terms is not None:
        arrays.append(mx.array(np.array(terms, dtype=np.int32)))
    return _Tables(host, [*arrays, mx.array(np.array(factors, dtype=np.float32))])


def _tables_of(spec: LinearSpec, target: str) -> _Tables:
    found = spec.caches.setdefault("gpu", {})
    key = target if target in ("out", "x") else "paths"
    if key not in found:
        found[key] = _paths_tables(spec) if key == "paths" else _rows_tables(spec, target)
    return found[key]


@cache
def _kernel(target: str, with_y: bool, dtype: mx.Dtype) -> GeneratedKernel:
    word, scalars = WORD_OF_TYPE[dtype], ["y"] if with_y else []
    if target in ("out", "x"):
        features = "x" if target == "out" else "g"
        inputs = [features, *scalars, "w", "blocks", "terms", "factors"]
        text = rows_text(target, with_y, word)
    elif target == "w":
        inputs = ["x", *scalars, "g", "paths", "factors", "n_parts"]
        text = weights_text(with_y, word)
    else:
        inputs = ["x", "w", "g", "paths", "factors", "dim_y"]
        text = scalars_text(word)
    return GeneratedKernel(f"block_linear_{target}", inputs, ["out"], text)


def _tiles(n: int) -> int:
    return -(-n // TILE)


def _n_tiles(spec: LinearSpec, target: str, n: int) -> int:
    """Tiles of the result; of the gradient to the weights, of one part."""
    if target == "y":
        return -(-n * spec.dim_y // SCALAR_THREADS)
    table = _tables_of(spec, target).blocks.tolist()
    if target == "w":
        return sum(_tiles(row[2] * row[4]) * _tiles(row[6]) for row in table)
    return sum(_tiles(n * d) * _tiles(columns) for _, columns, d, *_ in table)


def _n_parts(spec: LinearSpec, n: int) -> int:
    rows = n * max(p.d for p in spec.paths)
    return min(MOST_PARTS, -(-rows // ROWS_OF_PART))


def block_linear_refusal(
    spec: LinearSpec, target: str, n: int, arrays: Sequence[mx.array]
) -> str | None:
    """Why `block_linear` cannot take these arguments; None if it can.

    Args:
        spec: the map.
        target: "out", "x", "y" or "w".
        n: number of items.
        arrays: all but the target.
    """
    refused = refusal(*arrays)
    if refused:
        return refused
    parts = _n_parts(spec, n) if target == "w" else 1
    return grid_refusal(_n_tiles(spec, target, n) * parts, TILE_THREADS)


def block_linear(spec: LinearSpec, target: str, arrays: Mapping[str, mx.array]) -> mx.array:
    """A map of the family.

    Args:
        spec: the map.
        target: "out", or "x", "y", "w" for the gradient of <g, out> to it.
        arrays: x (n, dim_x), y (n, dim_y) if there is one, w (n_weights,), out (n, dim_out), which
            is g; the target is left out.

    Returns:
        Of the shape of the target.
    """
    a: dict[str, Any] = {**arrays, "g": arrays.get("out")}
    like = a["x"] if target != "x" else a["g"]
    n, dtype = like.shape[0], like.dtype
    tables = _tables_of(spec, target)
    kernel = _kernel(target, spec.dim_y > 0, dtype)
    blocks = _n_tiles(spec, target, n)
    if target == "w":
        parts = _n_parts(spec, n)
        more = [*tables.arrays, mx.array([parts], dtype=mx.int32)]
        (found,) = kernel(
            [a[name] for name in kernel.inputs if name in a and a[name] is not None] + more,
            [(parts, spec.n_weights)],
            [mx.float32],
            blocks=blocks * parts,
            threads=TILE_THREADS,
        )
        return mx.sum(found, axis=0).astype(dtype)
    more = [*tables.arrays, *([mx.array([spec.dim_y], dtype=mx.int32)] if target == "y" else [])]
    width = {"out": spec.dim_out, "x": spec.dim_x, "y": spec.dim_y}[target]
    (found,) = kernel(
        [a[name] for name in kernel.inputs if name in a and a[name] is not None] + more,
        [(n, width)],
        [dtype],
        blocks=blocks,
        threads=SCALAR_THREADS if target == "y" else TILE_THREADS,
    )
    return found
