"""NVIDIA's run-time compiler, called through ctypes: text in, machine code out.

It needs no GPU. The library is the one that MLX's CUDA backend loads, else one of NVIDIA's Python
packages, else what the system's loader finds. Calls from several threads run side by side.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

#: Kinds of compiled code: for one architecture, or for the driver to finish.
CodeKind = Literal["cubin", "ptx"]


class CannotCompileError(Exception):
    """There is no compiler, or it refuses the text; the message says which, in its words."""


@dataclass(frozen=True)
class Code:
    """What the compiler made of a text.

    Args:
        kind: "cubin" (machine code) or "ptx" (for an architecture that the compiler is too old
            for: the driver makes the machine code).
        data: the code.
        compiler: version of NVRTC, (major, minor).
        log: its remarks.
    """

    kind: CodeKind
    data: bytes
    compiler: tuple[int, int]
    log: str = ""


def compile_text(text: str, architecture: str, options: Sequence[str] = ()) -> Code:
    """Compile one text for one architecture.

    Args:
        text: CUDA C++.
        architecture: such as "sm_90a".
        options: more options of the compiler.

    Raises:
        CannotCompileError: there is no NVRTC, or the text is wrong.
    """
    library, program = _library(), ctypes.c_void_p()
    target, kind = _target(architecture)
    flags = [f"--gpu-architecture={target}", "--std=c++17", *options]
    # Only float16 and bfloat16 need CUDA's own headers.
    flags += [f"--include-path={folder}" for folder in _header_folders()]
    _check(
        library.nvrtcCreateProgram(
            ctypes.byref(program), text.encode(), b"kernel.cu", 0, None, None
        )
    )
    try:
        array = (ctypes.c_char_p * len(flags))(*[flag.encode() for flag in flags])
        failed = library.nvrtcCompileProgram(program, len(flags), array)
        log = _bytes(program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
        _check(failed, log)
        data = _bytes(program, "CUBIN" if kind == "cubin" else "PTX")
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))
    return Code(kind, data, version(), log)


@functools.cache
def version() -> tuple[int, int]:
    """Version of NVRTC, (major, minor).

    Raises:
        CannotCompileError: there is none.
    """
    major, minor = ctypes.c_int(), ctypes.c_int()
    _check(_library().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
    return major.value, minor.value


def library_path() -> str:
    """Where the library lies (its name alone if the system's loader found it).

    Raises:
        CannotCompileError: there is none.
    """
    return _library()._name


def _target(architecture: str) -> tuple[str, CodeKind]:
    """What to compile for: the architecture, or the newest known one, for the driver to finish."""
    count = ctypes.c_int()
    _check(_library().nvrtcGetNumSupportedArchs(ctypes.byref(count)))
    known = (ctypes.c_int * count.value)()
    _check(_library().nvrtcGetSupportedArchs(known))
    wanted = int("".join(c for c in architecture if c.isdigit()))
    if wanted in known:
        return architecture, "cubin"
    older = [number for number in known if number < wanted]
    if not older:
        raise CannotCompileError(
            f"NVRTC {'.'.join(map(str, version()))} does not compile for {architecture}"
        )
    return f"compute_{max(older)}", "ptx"


@functools.cache
def _library() -> ctypes.CDLL:
    said = "no library libnvrtc.so is found; pip install nvidia-cuda-nvrtc"
    for path in _library_paths():
        try:
            # NVRTC looks for its second library by name: it is loaded first.
            for builtins in Path(path).parent.glob("libnvrtc-builtins.so*"):
                if "alt" not in builtins.name and "/" in path:
                    ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)
            library = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            if "/" in path:
                said = f"{path} cannot be loaded: {error}"
            continue
        library.nvrtcGetErrorString.restype = ctypes.c_char_p
        return library
    raise CannotCompileError(said)


def _library_paths() -> Iterator[str]:
    try:
        maps = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        maps = []
    loaded = {line.split()[-1] for line in maps if "/libnvrtc.so" in line}
    yield from sorted(loaded, reverse=True)
    for folder in _nvidia_folders():
        found = [p for p in folder.glob("lib/libnvrtc.so*") if "alt" not in p.name]
        yield from sorted(map(str, found), reverse=True)
    yield from ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so")


def _nvidia_folders() -> list[Path]:
    """Folders of NVIDIA's Python packages, the newest version of CUDA first."""
    spec = importlib.util.find_spec("nvidia")
    roots = [Path(p) for p in (spec.submodule_search_locations or [])] if spec else []
    return sorted((p for root in roots for p in root.glob("*") if p.is_dir()), reverse=True)


@functools.cache
def _header_folders() -> tuple[Path, ...]:
    """Folders of CUDA's headers: those beside the library first."""
    beside = [Path(library_path()).parent.parent] if "/" in library_path() else []
    homes = [Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if name in os.environ]
    folders = [*beside, *_nvidia_folders(), *homes, Path("/usr/local/cuda")]
    found = [p / "include" for p in folders if (p / "include" / "cuda_fp16.h").is_file()]
    return tuple(found[:1])


def _check(code: int, log: str = "") -> None:
    if code:
        raise CannotCompileError(log or _library().nvrtcGetErrorString(code).decode())


def _bytes(program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    _check(getattr(_library(), f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    buffer = ctypes.create_string_buffer(size.value)
    _check(getattr(_library(), f"nvrtcGet{what}")(program, buffer))
    return buffer.raw
