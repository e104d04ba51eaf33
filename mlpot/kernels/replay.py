"""Functions that are traced once for each shape of their arrays and then replayed.

Building the operations of one energy and its forces in Python takes several milliseconds, more
than a GPU needs to compute them for a small system. `mlx.core.compile` records them and replays
the record without Python. It also fuses operations into new kernels, which a C++ compiler or NVRTC
has to translate: minutes for a whole model, for nothing. So functions are traced here with that
step left out, by the mode ``no_fuse`` of MLX, which its library has but its Python module does not
show.
"""

from __future__ import annotations

import ctypes
import functools
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx

from .gpu import compiled_together

_SET_MODE = "_ZN3mlx4core16set_compile_modeENS0_11CompileModeE"
_NO_FUSE, _ENABLED = 2, 3
_LOCK = threading.RLock()


@functools.cache
def _library() -> Any:
    """MLX's own library with the function that sets the mode, or None."""
    folder = Path(mx.__file__).parent / "lib"
    for name in ("libmlx.so", "libmlx.dylib"):
        if (folder / name).is_file():
            library = ctypes.CDLL(str(folder / name))
            if hasattr(library, _SET_MODE):
                return library
    return None


def available() -> bool:
    """Whether functions are replayed here; elsewhere they run as they are.

    MLX's own switch MLX_DISABLE_COMPILE is honoured.
    """
    return "MLX_DISABLE_COMPILE" not in os.environ and _library() is not None


def _switched_off() -> bool:
    """Whether `mx.disable_compile` is in force, which MLX does not tell: then nothing is kept."""
    calls = []

    def probe(x: mx.array) -> mx.array:
        calls.append(x)
        return x + 1

    compiled, x = mx.compile(probe), mx.zeros((1,))
    compiled(x)
    compiled(x)
    return len(calls) > 1


class Replayed:
    """A pure function of dictionaries of arrays, recorded at its first call with each shape.

    What the function takes from outside (weights, constants) must be evaluated and is part of the
    record: later changes of it are not seen.

    Args:
        function: takes and returns dictionaries of arrays (or nested lists of such).

    Attributes:
        n_traces: how often the function itself ran.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.n_traces = 0
        self._shapes: set[Any] = set()

        def counted(*arguments: Any) -> Any:
            self.n_traces += 1
            return compiled_together(function, *arguments)

        self._plain = counted
        self._compiled = mx.compile(counted) if available() else counted

    def __call__(self, *arguments: dict[str, mx.array]) -> Any:
        """Call the function; nothing is evaluated."""
        shapes = tuple(
            tuple((name, tuple(array.shape), str(array.dtype)) for name, array in one.items())
            for one in arguments
        )
        # The record also depends on where it is computed.
        key = (shapes, str(mx.default_stream(mx.default_device())))
        if not available():
            if key in self._shapes:
                self.n_traces -= 1
            self._shapes.add(key)
            return self._plain(*arguments)
        if key in self._shapes:
            return self._compiled(*arguments)
        with _LOCK:
            if _switched_off():
                return self._plain(*arguments)
            _library()[_SET_MODE](ctypes.c_int(_NO_FUSE))
            try:
                result = self._compiled(*arguments)
            finally:
                _library()[_SET_MODE](ctypes.c_int(_ENABLED))
        self._shapes.add(key)
        return result
