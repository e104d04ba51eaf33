"""Random convolutions and graphs that kernels are compared on."""

from __future__ import annotations

import mlx.core as mx
import numpy as np

from mlpot.kernels import ConvolutionPath, ConvolutionSpec, EdgeIndex

TOLERANCE = {mx.float32: 2e-6, mx.float64: 1e-13}

# Blocks as (l1, l2, l3, channels); l = 4 has no kernel of its own.
CASES = {
    "all l up to 2": [
        (l1, l2, l3, 32)
        for l1 in range(3)
        for l2 in range(3)
        for l3 in range(abs(l1 - l2), min(l1 + l2, 2) + 1)
    ],
    "l up to 3": [
        (l1, l2, l3, 16)
        for l1 in range(4)
        for l2 in range(4)
        for l3 in range(abs(l1 - l2), min(l1 + l2, 3) + 1)
    ],
    "beyond the compiled sizes": [(4, 1, 4, 20), (3, 2, 4, 7), (4, 4, 0, 33), (0, 4, 4, 1)],
    "one channel": [(0, 0, 0, 1), (0, 1, 1, 1), (0, 2, 2, 1)],
    "unequal blocks": [(0, 1, 1, 50), (1, 1, 0, 8), (1, 0, 1, 3), (2, 2, 1, 128), (2, 0, 2, 17)],
    "48 and 64": [(1, 1, 1, 48), (1, 2, 2, 64), (3, 0, 3, 48)],
    "no path": [],
}
GRAPHS = {  # nodes, edges
    "usual": (13, 90),
    "one node": (1, 5),
    "one edge": (4, 1),
    "no edge": (3, 0),
}


def random_spec(blocks, rng, gap: int = 0) -> ConvolutionSpec:
    """Paths with random couplings; the blocks of x with equal sizes are shared."""
    x_blocks: dict[tuple[int, int], int] = {}
    y_blocks: dict[int, int] = {}
    couplings: dict[tuple[int, int, int], np.ndarray] = {}
    dim_x = dim_y = n_weights = dim_out = 0
    paths = []
    for l1, l2, l3, mul in blocks:
        d1, d2, d3 = 2 * l1 + 1, 2 * l2 + 1, 2 * l3 + 1
        if (l1, mul) not in x_blocks:
            x_blocks[l1, mul] = dim_x
            dim_x += d1 * (mul + gap)
        if l2 not in y_blocks:
            y_blocks[l2] = dim_y
            dim_y += d2
        if (l1, l2, l3) not in couplings or rng.random() < 0.5:
            c = rng.normal(size=(d1, d2, d3)) * (rng.random((d1, d2, d3)) < 0.5)
            couplings[l1, l2, l3] = np.eye(d1)[:, None, :] * 0.7 if l2 == 0 and d1 == d3 else c
        paths.append(
            ConvolutionPath(
                x_offset=x_blocks[l1, mul],
                x_stride=mul + gap,
                d1=d1,
                y_offset=y_blocks[l2],
                d2=d2,
                w_offset=n_weights,
                out_offset=dim_out,
                out_stride=mul,
                d3=d3,
                mul=mul,
                coefficients=couplings[l1, l2, l3],
            )
        )
        n_weights += mul
        dim_out += d3 * mul
    return ConvolutionSpec(dim_x, dim_y, n_weights, dim_out, tuple(paths))


def random_edges(n_nodes: int, n_edges: int, rng) -> EdgeIndex:
    # The last node, if there are several, receives nothing and sends nothing.
    members = max(1, n_nodes - 1)
    receivers = np.sort(rng.integers(0, members, n_edges))
    return EdgeIndex.from_pairs(rng.integers(0, members, n_edges), receivers, n_nodes)


def relative_error(got: np.ndarray, want: np.ndarray) -> float:
    assert got.shape == want.shape
    return float(np.abs(got - want).max(initial=0) / max(np.abs(want).max(initial=0), 1e-300))


def cancels(want: dict[str, np.ndarray], squares: dict[str, np.ndarray]) -> bool:
    """Whether a result is little beside the sizes of what it is a sum of, added as errors are.

    Where one number is all there is, that happens by chance in one case of some hundred, and says
    nothing of a kernel: such inputs are drawn again.

    Args:
        want: results.
        squares: the same sums of squares.
    """
    largest = {name: np.abs(a).max(initial=0) for name, a in want.items()}
    return any(size < 0.1 * squares[name].max(initial=0) ** 0.5 for name, size in largest.items())
