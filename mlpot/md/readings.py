"""Observables of a step on the host, as the log takes them."""

from __future__ import annotations

import mlx.core as mx
import numpy as np

from .config import Stage
from .run_files import to_host


def readings(
    stage: Stage, found: dict[str, mx.array], reference: np.ndarray, stress: bool
) -> dict[str, np.ndarray]:
    """What was looked at, NaN where a stage has no such quantity.

    FIRE's velocities only lead downhill: they are no motion in time, so a relaxation has no kinetic
    energy and no temperature. There is no pressure without stresses or without a volume.

    Args:
        stage: of the run.
        found: of `mlpot.md.observables.observe`.
        reference: (n_graphs,) sums of E0, eV.
        stress: whether the integrator computes stresses.

    Returns:
        (n_graphs,) each, float64; energies with E0.
    """
    values = to_host(found, reference)
    if not (np.isfinite(values["kinetic"]).all() and np.isfinite(values["potential"]).all()):
        return values  # as they are, for the watch to see
    if stage.ensemble == "minimise":
        values["kinetic"] = np.zeros_like(values["kinetic"])
        values["total"] = values["potential"].copy()
        values["temperature"] = np.full_like(values["temperature"], np.nan)
    if not stress:
        values["pressure"] = np.full_like(values["pressure"], np.nan)
    else:
        values["pressure"] = np.where(values["volume"] > 0, values["pressure"], np.nan)
    return values
