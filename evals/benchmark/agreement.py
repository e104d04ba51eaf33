"""Whether two implementations have computed the same."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

#: Largest difference relative to the largest number, by phase, for float32 on both sides. Each
#: derivative adds rounding; sums over a thousand atoms too.
TOLERANCES = {
    "forward": 2e-5,
    "train": 5e-5,
    "forces": 5e-5,
    "md": 5e-5,
    "cold": 5e-5,
    "hvp": 2e-4,
    "force-train": 2e-4,
}


def difference(found: Mapping[str, np.ndarray], wanted: Mapping[str, np.ndarray]) -> float:
    """Largest error of all outputs, each relative to its largest number; inf if one is missing.

    Weights and their gradients have other shapes in other packages but one order, so arrays are
    compared flat. Numbers that are not finite never agree.
    """
    if set(found) != set(wanted):
        return float("inf")
    worst = 0.0
    for name, reference in wanted.items():
        a, b = (np.ravel(np.asarray(x, dtype=np.float64)) for x in (found[name], reference))
        if a.shape != b.shape or not (np.all(np.isfinite(a)) and np.all(np.isfinite(b))):
            return float("inf")
        scale = np.abs(b).max(initial=0.0)
        error = np.abs(a - b).max(initial=0.0)
        worst = max(worst, error / scale if scale > 0 else (float("inf") if error > 0 else 0.0))
    return float(worst)
