"""Running average of parameters."""

from __future__ import annotations

from collections.abc import Mapping

import mlx.core as mx

from mlpot import kernels


def decay_at(step: int, decay: float) -> float:
    """Decay of the average at a step, counted from 0: small at first, so that it starts quickly."""
    return min(decay, (1 + step) / (10 + step))


def mixed(
    average: Mapping[str, mx.array], parameters: Mapping[str, mx.array], decay: mx.array
) -> dict[str, mx.array]:
    """The exponential running average ``d average + (1 - d) parameters``, lazily.

    Args:
        average: so far, by name.
        parameters: new ones, by the same names.
        decay: (), d above.
    """
    names = list(average)
    found = kernels.mix([average[n] for n in names], [parameters[n] for n in names], decay)
    return dict(zip(names, found, strict=True))
