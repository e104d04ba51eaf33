"""Bessel functions of a distance that a polynomial switches off at a cutoff."""

from __future__ import annotations

import math
from dataclasses import dataclass, field


@dataclass(frozen=True, eq=False)
class BesselSpec:
    """What the functions are.

        b_n(r) = (2 / r_c) sin(w_n r) / r  (1 - r/r_c)^3 S(r/r_c),   w_n = n pi / r_c

    where S has the first p terms of the series of (1-x)^-3, so that the last two factors are the
    polynomial envelope of order p.

    Args:
        cutoff: r_c, unit of the distances.
        n: number of functions.
        p: order of the envelope, an integer.
    """

    cutoff: float
    n: int
    p: int
    caches: dict = field(default_factory=dict, repr=False)

    @property
    def first_frequency(self) -> float:
        """w_1."""
        return math.pi / self.cutoff

    def series(self, order: int) -> list[float]:
        """Coefficients of a derivative of S, in rising order; [0] if it vanishes."""
        own = [(k + 1) * (k + 2) / 2 for k in range(self.p)]
        return [math.perm(k, order) * own[k] for k in range(order, self.p)] or [0.0]

    def __getstate__(self) -> dict:
        """Copies and pickles make their own caches."""
        return self.__dict__ | {"caches": {}}
