"""Random numbers, rotations and comparisons of the tests of algebra."""

from __future__ import annotations

import mlx.core as mx
import numpy as np


def numbers(seed: int, *shape: int, dtype: mx.Dtype = mx.float64) -> mx.array:
    """Normal numbers from a seed."""
    return mx.array(np.random.default_rng(seed).standard_normal(shape), dtype=dtype)


def close(a, b, tolerance: float = 1e-12) -> bool:
    """Whether two arrays have the same shape and differ by at most ``tolerance``."""
    a, b = np.array(a), np.array(b)
    return a.shape == b.shape and np.abs(a - b).max(initial=0) <= tolerance


def rotation(seed: int, improper: bool) -> mx.array:
    """A random rotation, times the inversion if ``improper``."""
    q, r = np.linalg.qr(np.random.default_rng(seed).standard_normal((3, 3)))
    q = q * np.sign(np.diag(r))
    q = q * np.sign(np.linalg.det(q))
    return mx.array(-q if improper else q, dtype=mx.float64)
