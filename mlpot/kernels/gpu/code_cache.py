"""Compiled CUDA kernels on disk, in the user's cache folder.

A file holds a line of JSON about its content, then the code. It is found by the kernel's name,
which has a hash of the whole text, and the architecture: nothing else goes into the code. The
compiler's version does not count, so that code made on another machine can be brought along, but it
must suit the driver: machine code runs on drivers of the same or a newer major version of CUDA, PTX
on drivers that are not older than the compiler. Files that are damaged are made anew.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import json
import os
from pathlib import Path

from ...files import atomic_write
from ..native.builder import cache_folder
from .nvrtc import Code

#: Changes where files of an older version of this module are of no use.
FORMAT = 1


def folder() -> Path:
    """Where compiled CUDA kernels are kept."""
    return cache_folder() / "cuda"


def path(name: str, architecture: str) -> Path:
    """The file of a kernel."""
    return folder() / f"{name}.{architecture}"


def read(name: str, architecture: str) -> Code | None:
    """The code of a kernel, if it is there, undamaged and good for this driver."""
    try:
        about, data = path(name, architecture).read_bytes().split(b"\n", 1)
        known = json.loads(about)
        whole = known["format"] == FORMAT and known["sha256"] == hashlib.sha256(data).hexdigest()
        code = Code(known["kind"], data, tuple(known["nvrtc"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return code if whole and suits_driver(code) else None


def write(name: str, architecture: str, code: Code) -> str:
    """Keep the code of a kernel.

    Returns:
        Why that was not possible; empty if it was.
    """
    about = {
        "format": FORMAT,
        "name": name,
        "kind": code.kind,
        "nvrtc": code.compiler,
        "sha256": hashlib.sha256(code.data).hexdigest(),
    }
    try:
        os.makedirs(folder(), exist_ok=True)
        with atomic_write(path(name, architecture)) as file:
            file.write(json.dumps(about).encode() + b"\n" + code.data)
    except OSError as error:
        return f"{folder()} cannot be written ({error}): each process compiles its kernels anew"
    return ""


def suits_driver(code: Code) -> bool:
    """Whether the driver of this machine, if it has one, loads the code."""
    driver = driver_version()
    if driver is None:
        return True
    return code.compiler[0] <= driver[0] if code.kind == "cubin" else code.compiler <= driver


@functools.cache
def driver_version() -> tuple[int, int] | None:
    """The newest version of CUDA that the driver knows, (major, minor); None without a driver."""
    try:
        number = ctypes.c_int()
        if ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(number)):
            return None
    except (OSError, AttributeError):
        return None
    return number.value // 1000, number.value % 1000 // 10
