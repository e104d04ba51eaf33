"""Keeps freed memory for the next array, on Linux.

MLX's CPU backend takes each array from malloc and gives it back after use. glibc returns blocks
above 32 MiB to the kernel at once and gets them anew, page by page, each page cleared: adding two
arrays of 88 MB takes 40 ms instead of 4. MLX caches freed arrays on GPUs; this does the same here,
by two settings of glibc. ``MLPOT_MALLOC=0`` leaves glibc as it is.
"""

from __future__ import annotations

import ctypes
import os
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_NEVER = -1
_LARGEST = 2**31 - 1


def keep_freed_memory() -> bool:
    """Set glibc to keep what is freed; whether it did."""
    if not sys.platform.startswith("linux") or os.environ.get("MLPOT_MALLOC") == "0":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:  # another C library, such as musl
        return False
    # Setting either also stops glibc from adapting them.
    return bool(mallopt(_M_MMAP_THRESHOLD, _LARGEST)) and bool(mallopt(_M_TRIM_THRESHOLD, _NEVER))
