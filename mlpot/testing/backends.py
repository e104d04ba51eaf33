"""Which kernels there are on this machine."""

from __future__ import annotations

from mlpot.kernels import native


def available_backends() -> list[str]:
    """Names for `mlpot.kernels.use`: "reference", and "native" where it can be had."""
    return ["reference", *(["native"] if native.available() else [])]
