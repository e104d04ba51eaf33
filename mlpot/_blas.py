"""A real BLAS under MLX on Linux.

The Linux wheels of MLX carry the netlib reference BLAS, a few GFLOP/s on one core. The calls that
libmlx makes to it (`cblas_sgemm`, `cblas_dgemm`, `cblas_cgemm`) go through a table with one pointer
a function. Here those pointers are set to an OpenBLAS, usually that of the wheel scipy-openblas32.
Nothing is compiled, no other library of the process is affected, and it does not matter whether
MLX was imported before mlpot.

Environment: ``MLPOT_BLAS=0`` leaves MLX's own BLAS in place, ``MLPOT_BLAS=/path/to/lib.so`` names
another one; ``MLPOT_NUM_THREADS`` is the number of its threads. The default is one: OpenBLAS's
threads wait for each other by spinning, and on a machine that does anything else a small product
then takes milliseconds (a training step with two threads took 5 to 10 times as long as with one).
"""

from __future__ import annotations

import ctypes
import glob
import importlib.util
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from ._elf import ElfError, FunctionPointers

FUNCTIONS = ("cblas_sgemm", "cblas_dgemm", "cblas_cgemm")


@dataclass(frozen=True)
class BlasStatus:
    """What MLX's matrix products run on.

    Args:
        active: whether they go to the library below.
        library: path of the OpenBLAS, or "" if MLX's own is used.
        reason: why MLX's own is used, or "".
        threads: number of threads of the library, 0 if MLX's own is used.
    """

    active: bool
    library: str = ""
    reason: str = ""
    threads: int = 0


@dataclass
class _OpenBlas:
    """A loaded OpenBLAS with 32-bit integers."""

    handle: ctypes.CDLL
    path: str
    prefix: str

    def function(self, name: str):
        return getattr(self.handle, self.prefix + name)

    def threads(self) -> int:
        return int(self.function("openblas_get_num_threads")())

    def set_threads(self, n: int) -> None:
        self.function("openblas_set_num_threads")(ctypes.c_int(n))


_status = BlasStatus(active=False, reason="mlpot has not set it up")
_library: _OpenBlas | None = None
_original: dict[int, int] = {}


def num_threads() -> int:
    """Threads that mlpot may use: ``MLPOT_NUM_THREADS``, or the cores usable by this process.

    Raises:
        ValueError: the variable is not a positive integer.
    """
    text = os.environ.get("MLPOT_NUM_THREADS", "")
    if not text:
        usable = getattr(os, "sched_getaffinity", None)
        return len(usable(0)) if usable else (os.cpu_count() or 1)
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"MLPOT_NUM_THREADS={text!r}: give a positive integer, or unset it")
    return int(text)


def _candidates() -> Iterator[str]:
    """Files that may be an OpenBLAS with 32-bit integers, best first."""
    for package, pattern in (
        ("scipy_openblas32", "{}/lib/libscipy_openblas*.so"),
        ("scipy", "{}.libs/libscipy_openblas-*.so"),
    ):
        spec = importlib.util.find_spec(package)
        for folder in (spec.submodule_search_locations or []) if spec else []:
            yield from sorted(glob.glob(pattern.format(glob.escape(folder))))
    yield "libopenblas.so.0"


def _load(path: str) -> _OpenBlas | str:
    """Open a library, or say why it does not fit."""
    try:
        handle = ctypes.CDLL(path, mode=os.RTLD_LOCAL | os.RTLD_NOW)
    except OSError as error:
        return f"{path}: {error}"
    for prefix in ("scipy_", ""):
        needed = (*FUNCTIONS, "openblas_get_config", "openblas_set_num_threads")
        if all(hasattr(handle, prefix + name) for name in needed):
            library = _OpenBlas(handle, path, prefix)
            config = library.function("openblas_get_config")
            config.restype = ctypes.c_char_p
            if b"USE64BITINT" in config():
                return f"{path}: has 64-bit integers, MLX calls with 32-bit ones"
            return library
    return f"{path}: does not export {FUNCTIONS[0]} or scipy_{FUNCTIONS[0]}"


def _open() -> _OpenBlas | str:
    """The library to use, or why there is none."""
    choice = os.environ.get("MLPOT_BLAS", "")
    if choice not in ("", "1"):
        return _load(choice)
    refusals = []
    for path in _candidates():
        found = _load(path)
        if isinstance(found, _OpenBlas):
            return found
        refusals.append(found)
    return "no OpenBLAS found (pip install scipy-openblas32); " + "; ".join(refusals)


def route() -> BlasStatus:
    """Send MLX's matrix products to OpenBLAS. MLX must be loaded; a second call changes nothing.

    Returns:
        What they run on now.

    Raises:
        ValueError: ``MLPOT_NUM_THREADS`` is not a positive integer.
    """
    global _status
    if _status.active:
        return status()
    reason = ""
    if not sys.platform.startswith("linux"):
        reason = "only the Linux wheels of MLX need another BLAS"
    elif os.environ.get("MLPOT_BLAS") == "0":
        reason = "switched off by MLPOT_BLAS=0"
    elif "mlx.core" not in sys.modules:
        reason = "MLX is not loaded"
    else:
        found = _open()
        reason = _point_to(found) if isinstance(found, _OpenBlas) else found
    if reason:
        _status = BlasStatus(active=False, reason=reason)
    return status()


def _point_to(library: _OpenBlas) -> str:
    """Set libmlx's function pointers; what hinders it, or ""."""
    global _status, _library
    library.set_threads(num_threads() if os.environ.get("MLPOT_NUM_THREADS") else 1)
    try:
        pointers = FunctionPointers("libmlx.so")
        slots = pointers.find(FUNCTIONS)
        missing = [name for name in FUNCTIONS[:2] if not slots.get(name)]
        if missing:
            return f"libmlx does not call {', '.join(missing)} through a table"
        for name, addresses in slots.items():
            target = ctypes.cast(library.function(name), ctypes.c_void_p).value
            assert target is not None
            for address in addresses:
                _original[address] = pointers.write(address, target)
    except ElfError as error:
        return str(error)
    _library = library
    _status = BlasStatus(active=True, library=library.path)
    return ""


def restore() -> None:
    """Give MLX its own BLAS back (for comparisons)."""
    global _status, _library
    pointers = FunctionPointers("libmlx.so") if _original else None
    while _original and pointers:
        pointers.write(*_original.popitem())
    _library = None
    _status = BlasStatus(active=False, reason="taken back")


def set_num_threads(n: int) -> None:
    """Change the number of threads of the BLAS in use; nothing happens under MLX's own.

    Args:
        n: at least 1.

    Raises:
        ValueError: ``n`` is less than 1.
    """
    if n < 1:
        raise ValueError(f"n={n}: give at least one thread")
    if _library is not None:
        _library.set_threads(n)


def status() -> BlasStatus:
    """What MLX's matrix products run on, and why."""
    if _library is None:
        return _status
    return BlasStatus(active=True, library=_library.path, threads=_library.threads())
