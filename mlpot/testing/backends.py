"""Which kernels there are on this machine."""

from __future__ import annotations

import mlx.core as mx

from mlpot.kernels import native


def available_backends() -> list[str]:
    """Names for `mlpot.kernels.use`: "reference" and those kernels that run here."""
    found = {
        "native": native.available(),
        "cuda": mx.cuda.is_available(),
        "metal": mx.metal.is_available(),
    }
    return ["reference", *(name for name, available in found.items() if available)]
