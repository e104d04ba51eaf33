"""Fixed numbers of a model: kept in float64, handed out in the precision of the call."""

from __future__ import annotations

import mlx.core as mx
import numpy as np


class Constant:
    """A float64 (or integer) numpy array that is handed out as an MLX array of any dtype.

    Modules keep their fixed coefficients in this form: ``mlx.nn.Module`` treats every
    ``mx.array`` attribute as a trainable parameter, and a module that is switched to float64
    must get its coefficients in full precision, not those rounded to float32.

    The arrays are made from host data, so they are evaluated and may be captured by
    ``mx.compile``.

    Args:
        values: any array-like of numbers.
    """

    def __init__(self, values) -> None:
        self.values = np.asarray(values)
        self._cache: dict[mx.Dtype, mx.array] = {}

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return self.values.shape

    def __call__(self, dtype: mx.Dtype) -> mx.array:
        """The constant as an evaluated array of ``dtype``."""
        found = self._cache.get(dtype)
        if found is None:
            found = self._cache[dtype] = mx.array(np.ascontiguousarray(self.values), dtype=dtype)
        return found

    def __getstate__(self) -> dict:
        return {"values": self.values, "_cache": {}}

    def __repr__(self) -> str:
        return f"Constant(shape={self.shape})"
