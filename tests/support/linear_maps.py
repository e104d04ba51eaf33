"""Linear maps between blocks and arrays for them, small enough for the emulated GPU."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
from emulated_gpu import random_array

from mlpot.kernels import LinearPath, LinearSpec

# Blocks of x and of the output as (d, mul), sizes of the blocks of scalars y (none: no y).
CASES = {
    "equal blocks": (((1, 32), (3, 32)), ((1, 32), (1, 40), (3, 32)), ()),
    "species": (((1, 16), (3, 16)), ((1, 48), (3, 16)), (3,)),
    "two kinds of scalars": (((1, 5), (3, 7)), ((1, 4), (3, 17)), (2, 1)),
    "odd sizes": (((1, 1), (7, 33), (1, 6)), ((1, 1), (7, 37), (3, 3), (1, 18)), (2,)),
    "one number": (((1, 1),), ((1, 1),), ()),
    "nothing shared": (((3, 4),), ((5, 4), (3, 2)), ()),
}


def spec_of(case: str) -> LinearSpec:
    """All allowed paths, the last first; a gap at the begin and the end of each array."""
    x_blocks, out_blocks, y_sizes = CASES[case]
    x_starts = np.cumsum([2] + [d * mul for d, mul in x_blocks])
    out_starts = np.cumsum([1] + [d * mul for d, mul in out_blocks])
    y_starts = np.cumsum([0, *y_sizes])
    paths, at = [], 3
    for i, (d, mul_in) in enumerate(x_blocks):
        for y_offset, n_y in list(zip(y_starts, y_sizes, strict=False)) or [(0, 1)]:
            for o, (d_out, mul_out) in enumerate(out_blocks):
                if d == d_out:
                    numbers = (x_starts[i], mul_in, y_offset, n_y, at, out_starts[o], mul_out, d)
                    paths.append(LinearPath(*map(int, numbers), factor=0.5 + len(paths)))
                    at += mul_in * n_y * mul_out
    sizes = int(x_starts[-1]) + 1, int(y_starts[-1]), at + 2, int(out_starts[-1]) + 1
    return LinearSpec(*sizes, tuple(paths[::-1]))


def arrays_of(spec: LinearSpec, n: int, dtype: mx.Dtype = mx.float32) -> dict[str, mx.array]:
    shapes = {"x": (n, spec.dim_x), "w": (spec.n_weights,), "out": (n, spec.dim_out)}
    if spec.dim_y:
        shapes["y"] = (n, spec.dim_y)
    return {
        role: random_array(shape, dtype, seed=i) for i, (role, shape) in enumerate(shapes.items())
    }
