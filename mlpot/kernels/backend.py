"""Which kernels compute the values: the fastest that fits, or the one that was asked for."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextvars import ContextVar

#: Names that `use` and the environment variable MLPOT_KERNELS take.
BACKENDS = ("auto", "native", "reference")

_chosen: ContextVar[str | None] = ContextVar("mlpot_kernels", default=None)


def _check(name: str, origin: str) -> str:
    if name not in BACKENDS:
        raise ValueError(f"{origin} is {name!r}; choose one of {', '.join(BACKENDS)}")
    return name


def chosen() -> str:
    """The backend asked for: by `use`, else by MLPOT_KERNELS, else "auto"."""
    found = _chosen.get()
    if found is not None:
        return found
    return _check(os.environ.get("MLPOT_KERNELS") or "auto", "MLPOT_KERNELS")


@contextlib.contextmanager
def use(name: str) -> Iterator[None]:
    """Choose the kernels within a ``with`` block, for this thread.

    "auto" takes the native CPU kernels where they fit and plain MLX elsewhere; "reference" is
    plain MLX everywhere; "native" is as "auto", but refuses to start where the native kernels
    cannot be had.

    Args:
        name: "auto", "native" or "reference".

    Raises:
        ValueError: another name, or native kernels that are not available, with the reason.
    """
    _check(name, "the backend")
    if name == "native":
        from . import native

        if not native.available():
            raise ValueError(f"native kernels are not available: {native.why_not()}")
    token = _chosen.set(name)
    try:
        yield
    finally:
        _chosen.reset(token)
