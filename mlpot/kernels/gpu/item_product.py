"""Tensor products of items from a list of terms, whatever their modes and weights.

    T(x, y, w, g) = sum over terms of coefficient x[a] y[b] w[c] g[d]

The gradient to a role is a sum over the terms of each of its columns, which come in as a table: one
thread a column of an item, so the sums have a fixed order. Shared weights stay one vector; the
gradient to them is summed over items by a block of threads for each weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import mlx.core as mx
import numpy as np

from ..dispatch import Slower
from .dialect import SIMD_WIDTH, WORD_OF_TYPE
from .generated import GeneratedKernel, grid_refusal
from .refusals import refusal

if TYPE_CHECKING:
    from ..item_product_spec import ItemProductSpec

ROLES = ("x", "y", "w", "g")
#: More terms than this are not worth their tables of 16 to 20 bytes a term and role.
MOST_TERMS = 1_000_000
THREADS = 128
#: Most terms of all items together for which kernels are taken by themselves. On an H200 they are
#: two to four times faster than plain MLX there, product and all adjoints (docs/gpu-kernels.md);
#: with ten times as many the adjoints to shared weights make them slower.
MOST_TERMS_OF_ITEMS = 11_000_000


def _terms(spec: ItemProductSpec) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Columns of each role in each term, and the coefficients."""
    columns: dict[str, list[np.ndarray]] = {role: [] for role in ROLES}
    coefficients = []
    for path in spec.paths:
        i, j, k = np.nonzero(path.coefficients)
        values = path.coefficients[i, j, k]
        first, second, out = path.channels()
        q = np.arange(first.size)
        weights = q
        if path.weighting == "matrix":
            q, out = (a.ravel() for a in np.meshgrid(q, np.arange(path.out.mul), indexing="ij"))
            weights = q * path.out.mul + out
        # (couplings, channels): every coupling in every channel.
        shape = (len(values), len(q))
        columns["x"].append(path.x.offset + i[:, None] * path.x.stride + first[q] * path.x.step)
        columns["y"].append(path.y.offset + j[:, None] * path.y.stride + second[q] * path.y.step)
        columns["g"].append(path.out.offset + k[:, None] * path.out.stride + out * path.out.step)
        columns["w"].append(np.broadcast_to(path.w_offset + weights, shape))
        coefficients.append(np.broadcast_to(values[:, None], shape))
    joined = {
        role: np.concatenate([np.zeros(0, int), *(p.ravel() for p in parts)])
        for role, parts in columns.items()
    }
    return joined, np.concatenate([np.zeros(0), *(c.ravel() for c in coefficients)])


def _n_terms(spec: ItemProductSpec) -> int:
    if "n_gpu_terms" not in spec.caches:
        spec.caches["n_gpu_terms"] = _count_terms(spec)
    return spec.caches["n_gpu_terms"]


def _count_terms(spec: ItemProductSpec) -> int:
    return sum(
        int(np.count_nonzero(p.coefficients))
        * len(p.channels()[0])
        * (p.out.mul if p.weighting == "matrix" else 1)
        for p in spec.paths
    )


def _others(spec: ItemProductSpec, target: str) -> list[str]:
    return [r for r in ROLES if r != target and (r != "w" or spec.n_weights)]


def _width(spec: ItemProductSpec, target: str) -> int:
    return {"x": spec.dim_x, "y": spec.dim_y, "w": spec.n_weights, "g": spec.dim_out}[target]


def _tables(spec: ItemProductSpec, target: str) -> list[mx.array]:
    """Offsets of the terms of each column of the target, columns of the others, coefficients."""
    found = spec.caches.setdefault("gpu", {})
    if target not in found:
        columns, coefficients = _terms(spec)
        order = np.argsort(columns[target], kind="stable")
        counts = np.bincount(columns[target], minlength=_width(spec, target))
        others = np.stack([columns[role][order] for role in _others(spec, target)], axis=1)
        found[target] = [
            mx.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)),
            mx.array(others.astype(np.int32)),
            mx.array(coefficients[order].astype(np.float32)),
        ]
    return found[target]


def _sum_of_terms(others: Sequence[str], shared: bool) -> str:
    n = len(others)
    factors = []
    for i, role in enumerate(others):
        row = "" if role == "w" and shared else f"item * {role}_shape[1] + "
        factors.append(f"float(LOAD({role}, {row}LOAD(terms, {n} * INDEX(term) + {i})))")
    return f"""
        for (int term = LOAD(ptr, column); term < LOAD(ptr, column + 1); ++term)
            sum += LOAD(coefficients, term) * {" * ".join(factors)};
    """


@cache
def _kernel(others: tuple[str, ...], target: str, shared: bool, dtype: mx.Dtype) -> GeneratedKernel:
    word, first = WORD_OF_TYPE[dtype], others[0]
    inputs = [*others, "ptr", "terms", "coefficients"]
    name = f"item_product_{target}"
    terms = _sum_of_terms(others, shared)
    if target != "w" or not shared:
        body = f"""
            const int element = GLOBAL_X, width = ptr_shape[0] - 1;
            if (element < {first}_shape[0] * INDEX(width)) {{
                const INDEX item = element / width;
                const int column = int(element - item * width);
                float sum = 0.0f;
                {terms}
                out[element] = {word}(sum);
            }}
        """
        return GeneratedKernel(name, inputs, ["out"], body)
    n_warps = THREADS // SIMD_WIDTH
    body = f"""
        SHARED float sums[{n_warps}];
        const int column = BLOCK_X;
        float sum = 0.0f;
        for (INDEX item = THREAD_X; item < {first}_shape[0]; item += {THREADS}) {{
            {terms}
        }}
        sum = SIMD_SUM(sum);
        if (LANE == 0) sums[WARP] = sum;
        BARRIER();
        if (THREAD_X == 0) {{
            float total = 0.0f;
            for (int warp = 0; warp < {n_warps}; ++warp) total += sums[warp];
            out[column] = {word}(total);
        }}
    """
    return GeneratedKernel(f"{name}_shared", inputs, ["out"], body)


def _n_blocks(spec: ItemProductSpec, target: str, shared: bool, n: int) -> int:
    width = _width(spec, target)
    return width if target == "w" and shared else -(-n * width // THREADS)


def item_product_refusal(
    spec: ItemProductSpec, target: str, shared: bool, arrays: Sequence[mx.array]
) -> str | None:
    """Why `item_product` cannot take these arguments; None if it can.

    Args:
        spec: the product.
        target: "g" for the product itself, or "x", "y", "w".
        shared: whether all items share one set of weights.
        arrays: the other roles; the first has a row for each item.
    """
    n_terms = _n_terms(spec)
    if n_terms == 0:
        return "no terms"
    if n_terms > MOST_TERMS:
        return f"{n_terms} terms are more than {MOST_TERMS}"
    refused = refusal(*arrays)
    return refused or grid_refusal(_n_blocks(spec, target, shared, arrays[0].shape[0]), THREADS)


def slower_than_plain(spec: ItemProductSpec, n_items: int) -> Slower | None:
    """Why kernels are not known to be faster than plain MLX; None where they are."""
    if any(path.weighting == "matrix" for path in spec.paths):
        return Slower("plain MLX has matrix products for weights between all channels")
    n_terms = n_items * _n_terms(spec)
    if n_terms > MOST_TERMS_OF_ITEMS:
        return Slower(
            f"{n_terms} terms of all items (up to {MOST_TERMS_OF_ITEMS} kernels are faster)"
        )
    return None


def item_product(
    spec: ItemProductSpec, target: str, shared: bool, arrays: Sequence[mx.array]
) -> mx.array:
    """Gradient of T to a role, values only.

    Args:
        spec: the product.
        target: "g" for the product itself, or "x", "y", "w".
        shared: whether all items share one set of weights.
        arrays: the other roles in the order x, y, w, g; w (n_weights,) if shared, else
            (n, n_weights), and left out where there are none.

    Returns:
        Of the shape of the target.
    """
    n, dtype = arrays[0].shape[0], arrays[0].dtype
    kernel = _kernel(tuple(_others(spec, target)), target, shared, dtype)
    width = _width(spec, target)
    shape = (width,) if target == "w" and shared else (n, width)
    (found,) = kernel(
        [*arrays, *_tables(spec, target)],
        [shape],
        [dtype],
        blocks=_n_blocks(spec, target, shared, n),
        threads=THREADS,
    )
    return found
