"""Random numbers that every process draws alike: by seed and name, without handing them over."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Mapping

import numpy as np


@functools.lru_cache(maxsize=8)
def normal(seed: int, name: str, shape: tuple[int, ...] | int) -> np.ndarray:
    """N(0, 1) in float32, the same for a seed, a name and a number of elements."""
    generator = np.random.default_rng([seed, zlib.crc32(name.encode())])
    drawn = generator.standard_normal(shape, dtype=np.float32)
    # Kept for the next phase: the weights of a million edges take seconds.
    drawn.flags.writeable = False
    return drawn


def weights(seed: int, sizes: Mapping[str, int]) -> dict[str, np.ndarray]:
    """Flat weights of a model by e3nn's names.

    Those of ``alpha``, which multiplies features by themselves, are kept small, so that numbers
    stay of the order of one through the layers.
    """
    return {
        name: normal(seed, name, size) * (0.1 if name.endswith("alpha.weight") else 1.0)
        for name, size in sizes.items()
        if size
    }
