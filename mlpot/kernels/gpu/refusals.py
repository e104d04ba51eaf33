"""Whether GPU kernels can take some arrays here, and under which name they are offered."""

from __future__ import annotations

import os
from collections.abc import Callable

import mlx.core as mx

from ..dispatch import Nothing, Slower
from .dialect import WORD_OF_TYPE, Dialect
from .generated import device_refusal, running_dialect

#: Number types that the kernels read and write; they compute in float32.
NUMBER_TYPES = tuple(WORD_OF_TYPE)


def refusal(*arrays: mx.array, types: tuple[mx.Dtype, ...] = NUMBER_TYPES) -> str | None:
    """Why no GPU kernel takes these floating-point arrays; None if they fit.

    Args:
        arrays: not empty, with at least one dimension, of one number type.
        types: number types that the kernel has.
    """
    refused = device_refusal()
    if refused:
        return refused
    if any(a.size == 0 for a in arrays):
        return Nothing("an array is empty")
    found = {a.dtype for a in arrays}
    if len(found) != 1:
        return f"mixed precision ({', '.join(sorted(str(t) for t in found))})"
    if not found <= set(types):
        return f"{found.pop()} is not one of {', '.join(str(t) for t in types)}"
    if any(a.ndim == 0 for a in arrays):
        return "a number, not an array"
    return None


def unmeasured() -> str | None:
    """Why a kernel is left out that no Mac has run yet; None on NVIDIA's GPUs or if asked for.

    Such kernels were measured on an H200 (docs/molecular_dynamics.md); on Metal an emulator alone
    has run them. Nobody knows how much faster they are there, so plain MLX stays in their place
    unless the environment has ``MLPOT_UNMEASURED_KERNELS=1`` (or kernels are forced). Whoever has
    measured one on a Mac takes this out of its check.
    """
    if running_dialect() == "cuda" or os.environ.get("MLPOT_UNMEASURED_KERNELS") == "1":
        return None
    return Slower("not measured on a Mac yet (MLPOT_UNMEASURED_KERNELS=1 takes it)")


def offers(check: Callable[[], str | None]) -> tuple[tuple[Dialect, Callable[[], str | None]], ...]:
    """What `dispatch.choose` takes: this machine's kind of GPU with its check, if it has one."""
    dialect = running_dialect()
    return () if dialect is None else ((dialect, check),)
