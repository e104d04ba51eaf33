"""Loads the compiled kernels, once a process, and keeps the reason where that is not possible."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import threading
from dataclasses import dataclass
from types import ModuleType
from typing import Literal

import mlx.core as mx
import numpy as np

from ..._blas import num_threads as wanted_threads
from ..dispatch import Nothing
from . import builder
from .toolchain import CannotBuildError

_MODULE_NAME = "_mlpot_native"

CacheState = Literal["built", "failed", "absent"]


@dataclass
class _State:
    module: ModuleType | None = None
    reason: str = ""
    settled: bool = False


_state = _State()
_loading = threading.Lock()


def _load(path) -> ModuleType:
    loader = importlib.machinery.ExtensionFileLoader(_MODULE_NAME, str(path))
    spec = importlib.util.spec_from_file_location(_MODULE_NAME, path, loader=loader)
    assert spec is not None
    try:
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
        with mx.stream(mx.cpu):
            found = np.array(module.elementary("exp", mx.zeros((3,))))
        if not np.array_equal(found, [1.0, 1.0, 1.0]):
            raise ValueError(f"exp(0) = {found}")
    except Exception as error:
        # Whatever is wrong with the file, plain MLX is there: the reason is kept for `doctor`.
        said = str(error).splitlines()
        what = said[0] if said else type(error).__name__
        raise CannotBuildError(f"the compiled kernels {path} do not work ({what})") from error
    return module


def _load_or_rebuild(retry: bool, verbose: bool) -> ModuleType:
    """Load the cached kernels; a file that does not work is compiled anew, once."""
    was_there = cache_state() == "built"
    path = builder.ensure(retry=retry, verbose=verbose)
    try:
        return _load(path)
    except CannotBuildError as error:
        builder.discard(str(error))
        if not was_there:
            raise
    path = builder.ensure(retry=True, verbose=verbose)
    try:
        return _load(path)
    except CannotBuildError as error:
        builder.discard(str(error))
        raise


def _settle(retry: bool, verbose: bool) -> _State:
    with _loading:
        if _state.module is None and (retry or not _state.settled):
            try:
                if switched_off():
                    raise CannotBuildError(switched_off())
                module = _load_or_rebuild(retry, verbose)
                module.set_num_threads(wanted_threads())
                _state.module, _state.reason = module, ""
            except CannotBuildError as error:
                _state.reason = str(error)
            _state.settled = True
        return _state


def switched_off() -> str:
    """The reason if the environment switches the kernels off, or ""."""
    return "switched off by MLPOT_NATIVE=0" if os.environ.get("MLPOT_NATIVE") == "0" else ""


def module() -> ModuleType | None:
    """The compiled module, built and loaded if need be; None where that is not possible."""
    return _state.module or _settle(retry=False, verbose=False).module


def available() -> bool:
    """Whether the kernels run here. The first call of a process may compile them."""
    return module() is not None


def why_not() -> str:
    """Why the kernels do not run here, in one line; empty if they do."""
    return _settle(retry=False, verbose=False).reason


def build(verbose: bool = False) -> bool:
    """Compile the kernels now if they are not in the cache, even where it failed before.

    Args:
        verbose: show the commands of the compiler.

    Returns:
        Whether the kernels run here.
    """
    return _settle(retry=True, verbose=verbose).module is not None


def cache_state() -> CacheState:
    """Whether the kernels for this machine are in the cache; compiles nothing."""
    if builder.library_path().exists():
        return "built"
    return "failed" if builder.failure_path().exists() else "absent"


def refusal(*arrays: mx.array) -> str | None:
    """Why the kernels cannot take these arrays; None if they can.

    Args:
        arrays: the floating-point arguments of a primitive: not empty, one precision (float32 or
            float64), default device CPU.
    """
    types = {a.dtype for a in arrays}
    if mx.default_device() != mx.Device(mx.cpu):
        return "the default device is a GPU"
    if any(a.size == 0 for a in arrays):
        return Nothing("an array is empty")
    if len(types) != 1:
        return f"mixed precision ({', '.join(sorted(str(t) for t in types))})"
    if not types <= {mx.float32, mx.float64}:
        return f"{types.pop()} is not float32 or float64"
    return None if available() else why_not()


def num_threads() -> int:
    """Threads that the kernels use; 0 where they do not run."""
    found = module()
    return int(found.num_threads()) if found else 0


def set_num_threads(n: int) -> None:
    """Change the number of threads; the results stay the same to the last bit.

    Args:
        n: at least 1.

    Raises:
        ValueError: ``n`` is less than 1.
    """
    if n < 1:
        raise ValueError(f"n={n}: give at least one thread")
    found = module()
    if found:
        found.set_num_threads(n)
