"""Which kernels compute the values: the fastest that fits, or the one that was asked for."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextvars import ContextVar

import mlx.core as mx

#: Names that `use` and the environment variable MLPOT_KERNELS take.
BACKENDS = ("auto", "native", "cuda", "metal", "reference")

_chosen: ContextVar[str | None] = ContextVar("mlpot_kernels", default=None)


def _check(name: str, origin: str) -> str:
    if name not in BACKENDS:
        raise ValueError(f"{origin} is {name!r}; choose one of {', '.join(BACKENDS)}")
    return name


def chosen() -> str:
    """The backend asked for: by `use`, else by MLPOT_KERNELS, else "auto".

    Raises:
        ValueError: MLPOT_KERNELS is no name of a backend, or names kernels that cannot be had.
    """
    found = _chosen.get()
    if found is not None:
        return found
    name = _check(os.environ.get("MLPOT_KERNELS") or "auto", "MLPOT_KERNELS")
    if name in ("native", "cuda", "metal"):
        why_not = _why_not(name)
        if why_not:
            raise ValueError(
                f"MLPOT_KERNELS is {name!r}, but these kernels are not available: {why_not}"
            )
    return name


def _why_not(name: str) -> str:
    """Why kernels cannot be had on this machine; empty if they can."""
    if name == "native":
        from . import native

        return native.why_not()
    if name == "cuda":
        return "" if mx.cuda.is_available() else "this MLX has no CUDA backend or finds no GPU"
    if name == "metal":
        return "" if mx.metal.is_available() else "this MLX has no Metal backend or finds no GPU"
    return ""


@contextlib.contextmanager
def use(name: str) -> Iterator[None]:
    """Choose the kernels within a ``with`` block, for this thread.

    "auto" takes the fastest kernels that fit and plain MLX where none do; "reference" is plain
    MLX everywhere; "native" (CPU), "cuda" and "metal" allow these kernels alone, plain MLX where
    they do not fit, and refuse to start where they cannot be had. Put the block around ``mx.grad``
    and its like: derivatives that are traced after it do not see it.

    Args:
        name: "auto", "native", "cuda", "metal" or "reference".

    Raises:
        ValueError: another name, or kernels that are not available, with the reason.
    """
    _check(name, "the backend")
    why_not = _why_not(name)
    if why_not:
        raise ValueError(f"{name} kernels are not available: {why_not}")
    token = _chosen.set(name)
    try:
        yield
    finally:
        _chosen.reset(token)
