"""Equivariant interatomic potentials on Apple's MLX.

Subpackages are imported on first use, so that ``import mlpot`` stays quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from . import _backend

if TYPE_CHECKING:
    from .io import load, save

__version__ = "0.1.0"

_SUBPACKAGES = (
    "calculators",
    "cli",
    "config",
    "datasets",
    "derivatives",
    "elements",
    "files",
    "graph",
    "io",
    "kernels",
    "md",
    "models",
    "nn",
    "o3",
    "testing",
    "training",
    "units",
    "workflows",
)
_FROM_IO = ("load", "save")

__all__ = ["__version__", "load", "save"]

_backend.prepare()


def __getattr__(name: str) -> Any:
    if name in _FROM_IO:
        value = getattr(importlib.import_module(".io", __name__), name)
    elif name in _SUBPACKAGES:
        value = importlib.import_module(f".{name}", __name__)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_SUBPACKAGES, *_FROM_IO})
