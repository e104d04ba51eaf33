"""Compiles CUDA kernels side by side and keeps them on disk.

MLX's own ``cuda_kernel`` reads large headers, compiles one kernel at a time and forgets it at the
end of the process. Here NVRTC is called directly, from several threads, and what it makes is
kept in the cache folder. Where that is not possible MLX compiles, and `status` says why.
``MLPOT_NVRTC=0`` leaves it to MLX.

A kernel is asked for when a graph of operations is built, one after the other. For all to be
compiled at the same time, `compiled_together` builds a graph twice where kernels are missing: at
first they are collected only.
"""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

import mlx.core as mx

from ..dispatch import note
from . import code_cache, nvrtc
from .cuda_text import KernelText

#: Texts up to this length are compiled as soon as they are asked for, also by `compiled_together`:
#: that takes some hundredths of a second, and tables are evaluated while graphs are built.
SHORT_TEXT = 6000


@dataclass(frozen=True)
class Status:
    """What became of the CUDA kernels of this process.

    Args:
        from_disk: how many were found in the cache folder.
        compiled: how many were compiled here.
        seconds: that the calls took that waited for it.
        left_to_mlx: names of kernels that could not be compiled here.
        reason: why MLX compiles kernels, or why they are not kept; empty where all is well.
    """

    from_disk: int = 0
    compiled: int = 0
    seconds: float = 0.0
    left_to_mlx: tuple[str, ...] = ()
    reason: str = ""


_lock = threading.Lock()
_ready: dict[str, bytes] = {}
_status = Status()
_collected: ContextVar[dict[str, KernelText] | None] = ContextVar("mlpot_collected", default=None)


def switched_off() -> str:
    """The reason if the environment leaves compilation to MLX, or ""."""
    return "switched off by MLPOT_NVRTC=0" if os.environ.get("MLPOT_NVRTC") == "0" else ""


@functools.cache
def device_architecture() -> str:
    """The architecture of this machine's GPU as NVRTC names it, such as "sm_90a"."""
    info = mx.device_info(mx.gpu)
    major, minor = (info[f"compute_capability_{part}"] for part in ("major", "minor"))
    return f"sm_{major}{minor}" + ("a" if int(major) >= 9 else "")


def machine_code(text: KernelText) -> bytes | None:
    """The code of a kernel; None where MLX has to compile it."""
    off = switched_off()
    if off:
        if _status.reason != off:
            _change(lambda now: replace(now, reason=off))
        return None
    found = _ready.get(text.name)
    if found is not None or text.name in _status.left_to_mlx:
        return found
    architecture = device_architecture()
    code = code_cache.read(text.name, architecture)
    if code is not None:
        _change(lambda now: replace(now, from_disk=now.from_disk + 1))
        return _ready.setdefault(text.name, code.data)
    collected = _collected.get()
    if collected is not None and len(text.text) > SHORT_TEXT:
        collected[text.name] = text
        return None
    compile_all([text], architecture)
    return _ready.get(text.name)


def compile_all(texts: Iterable[KernelText], architecture: str) -> None:
    """Compile kernels at the same time and keep them; those that cannot be are left to MLX."""
    texts = list(texts)
    start = time.perf_counter()
    if len(texts) == 1:
        _compile(texts[0], architecture)
    else:
        threads = min(len(texts), os.cpu_count() or 1)
        with ThreadPoolExecutor(threads, "mlpot-nvrtc") as pool:
            # The longest texts first: none is left running alone at the end.
            longest_first = sorted(texts, key=lambda text: -len(text.text))
            list(pool.map(lambda text: _compile(text, architecture), longest_first))
    seconds = time.perf_counter() - start
    _change(lambda now: replace(now, seconds=now.seconds + seconds))


def compiled_together(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function that builds a graph of operations; its kernels are compiled side by side.

    Where kernels are missing, the function is called a second time when they are there, and what
    it gave at first is thrown away: it must be pure. Without an NVIDIA GPU this is a plain call.

    Args:
        function: builds operations and evaluates nothing (what it evaluates may have to be compiled
            by MLX).
        arguments: its arguments.

    Returns:
        What the function returns.
    """
    if _collected.get() is not None or not mx.cuda.is_available():
        return function(*arguments)
    collected: dict[str, KernelText] = {}
    token = _collected.set(collected)
    try:
        result = function(*arguments)
    finally:
        _collected.reset(token)
    if not collected:
        return result
    compile_all(collected.values(), device_architecture())
    return function(*arguments)


def status() -> Status:
    """What became of the CUDA kernels of this process."""
    return _status


def forget() -> None:
    """Forget the kernels of this process; those on disk stay."""
    with _lock:
        _ready.clear()
    _change(lambda _: Status())


def _compile(text: KernelText, architecture: str) -> None:
    try:
        code = nvrtc.compile_text(text.text, architecture)
        if not code_cache.suits_driver(code):
            made, driver = code.compiler, code_cache.driver_version()
            raise nvrtc.CannotCompileError(f"NVRTC {made} is newer than the driver's CUDA {driver}")
    except nvrtc.CannotCompileError as error:
        _left_to_mlx(text.name, f"{text.name}: {error}")
        return
    problem = code_cache.write(text.name, architecture, code)
    with _lock:
        _ready[text.name] = code.data
    _change(lambda now: replace(now, compiled=now.compiled + 1, reason=problem or now.reason))


def _left_to_mlx(name: str, reason: str) -> None:
    if name not in _status.left_to_mlx:
        _change(lambda now: replace(now, left_to_mlx=(*now.left_to_mlx, name), reason=reason))


def _change(change: Callable[[Status], Status]) -> None:
    global _status
    with _lock:
        _status = change(_status)
    told = _status.reason
    if _status.left_to_mlx:
        told = f"{len(_status.left_to_mlx)} kernels are compiled by MLX, slowly: {told}"
    note("CUDA", told and f"CUDA: {told}")
