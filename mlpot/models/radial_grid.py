"""Functions of a distance as quintic polynomials between knots."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import mlx.core as mx
import numpy as np
from jaxtyping import Float, Int

from mlpot import kernels

#: Coefficients of an interval: t^0 to t^5.
ORDER = 6
#: Distance from breakpoints to the knots on either side of them, in cutoffs.
_WITHIN = 1e-12


class RadialGrid:
    """Knots from 0 to the cutoff, and the quintic Hermite interpolant between them.

    On the interval from x_i on, with width h_i and t = (r - x_i) / h_i,

        f(r) = sum_{m < 6} c[i, m] t^m

    where value, slope and curvature at both ends are those of the interpolated function. Energies,
    forces and Hessians made with it are derivatives of one function of class C2.

    Powers of t and not the six Hermite functions are what edges are multiplied with: the Hermite
    functions take differences of neighbouring values, which in float32 leaves slopes with errors
    of 1e-5 (measured, 1,056 intervals; powers: 1e-7).

    Args:
        cutoff: Angstrom; the interpolant is exactly zero from there on.
        n_intervals: number of intervals, rounded up so that each piece has one.
        breakpoints: distances where a derivative of the function jumps, ascending, between 0 and
            the cutoff. A knot lies on either side of each, with the derivatives of its side.
    """

    def __init__(self, cutoff: float, n_intervals: int, breakpoints: Sequence[float] = ()) -> None:
        ends = [0.0, *breakpoints, float(cutoff)]
        if np.any(np.diff(ends) <= 0):
            raise ValueError(
                f"breakpoints {list(breakpoints)} must ascend between 0 and the cutoff, {cutoff}"
            )
        self.cutoff = float(cutoff)
        counts = [
            max(1, int(np.ceil(n_intervals * (b - a) / cutoff - 1e-9)))
            for a, b in itertools.pairwise(ends)
        ]
        self.n_intervals = sum(counts)
        pieces = []
        for a, b, n in zip(ends, ends[1:], counts, strict=False):
            knots = np.linspace(a, b, n + 1)
            # Numbers that float32 has: then r - x_i is exact in float32 too.
            knots[1:-1] = knots[1:-1].astype(np.float32)
            # So much within the piece that rounding cannot put them on the other side.
            knots[0] += _WITHIN * cutoff
            knots[-1] -= _WITHIN * cutoff
            pieces.append(knots)
        left = np.concatenate([knots[:-1] for knots in pieces])
        right = np.concatenate([knots[1:] for knots in pieces])
        #: (n_intervals,) where intervals begin, and their widths, Angstrom.
        self.left, self.widths = left, right - left
        #: (n_knots,) where functions are evaluated.
        self.knots = np.concatenate(pieces)
        first_knots = np.concatenate([[0], np.cumsum([n + 1 for n in counts])])
        self._pieces = [(int(a), int(b)) for a, b in itertools.pairwise(first_knots)]
        self._widths = kernels.Constant(self.widths[:, None])
        self._spec = kernels.IntervalSpec(self.cutoff, ends[:-1], counts, left, self.widths)

    def locate(
        self, length: Float[mx.array, " n_edges"], kinds: Int[mx.array, " n_edges"] | None = None
    ) -> tuple[Int[mx.array, " n_edges"], Float[mx.array, "n_edges 6"]]:
        """First row of the table for each length, and the powers of t; zeros from the cutoff on.

        The row is a constant for derivatives, the powers have all of them. Where rounding puts a
        length next to a knot into the neighbouring interval, its polynomial goes on.

        Args:
            length: (n_edges,), Angstrom.
            kinds: (n_edges,) int32, kind of each edge where the table has several.

        Returns:
            (n_edges,) int32, six rows an interval, and (n_edges, 6).
        """
        rows = kernels.locate(self._spec, length, kinds)
        return rows, kernels.interval_powers(self._spec, length, rows)

    def coefficients(
        self,
        value: Float[mx.array, "*kinds n_knots width"],
        slope: Float[mx.array, "*kinds n_knots width"],
        curvature: Float[mx.array, "*kinds n_knots width"],
    ) -> Float[mx.array, "*kinds n_intervals 6 width"]:
        """Coefficients c of functions from their values and derivatives at `knots`."""
        h = self._widths(value.dtype)
        f0, f1 = self._ends(value)
        g0, g1 = (h * g for g in self._ends(slope))
        k0, k1 = (h * h * k for k in self._ends(curvature))
        a = (f1 - f0) - g0 - 0.5 * k0
        b = (g1 - g0) - k0
        c = k1 - k0
        return mx.stack(
            [
                f0,
                g0,
                0.5 * k0,
                10.0 * a - 4.0 * b + 0.5 * c,
                -15.0 * a + 7.0 * b - c,
                6.0 * a - 3.0 * b + 0.5 * c,
            ],
            axis=-2,
        )

    def _ends(self, at_knots: mx.array) -> tuple[mx.array, mx.array]:
        """Left and right ends of the intervals."""
        left = [at_knots[..., a : b - 1, :] for a, b in self._pieces]
        right = [at_knots[..., a + 1 : b, :] for a, b in self._pieces]
        if len(left) == 1:
            return left[0], right[0]
        return mx.concatenate(left, axis=-2), mx.concatenate(right, axis=-2)
