"""Mean squared displacements along a trajectory."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

from mlpot.elements import symbol


def mean_squared_displacement(
    positions: Float64[np.ndarray, "n_frames n_atoms 3"], numbers, masses=None
) -> dict[str, Float64[np.ndarray, "n_lags"]]:
    """How far atoms get, by element, averaged over atoms and over times to start from.

        MSD(k) = < |r(i + k) - r(i)|^2 >

    Args:
        positions: unwrapped, Angstrom, equally spaced in time.
        numbers: (n_atoms,) atomic numbers.
        masses: (n_atoms,), to take out the motion of the centre of mass; kept if None.

    Returns:
        Angstrom^2, (n_frames // 2 + 1,) for each element, such as "H": longer times have too few
        beginnings.
    """
    xyz = np.asarray(positions, dtype=np.float64)
    if masses is not None:
        weights = np.asarray(masses) / np.sum(masses)
        xyz = xyz - np.einsum("n,fni->fi", weights, xyz)[:, None]
    n_lags = len(xyz) // 2 + 1
    kinds = np.asarray(numbers)
    curves = {symbol(int(z)): np.zeros(n_lags) for z in np.unique(kinds)}
    for lag in range(1, n_lags):
        squared = ((xyz[lag:] - xyz[:-lag]) ** 2).sum(axis=-1).mean(axis=0)
        for z in np.unique(kinds):
            curves[symbol(int(z))][lag] = squared[kinds == z].mean()
    return curves
