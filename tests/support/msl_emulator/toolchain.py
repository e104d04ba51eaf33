"""The compiler of the emulator: found, called, and its programs kept."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from .errors import EmulationError

FOLDER = Path(__file__).parent
INSTALL_COMMAND = "apt-get install clang-16 libclang-rt-16-dev llvm-16"
# The oldest has _Float16 on x86.
_VERSIONS = range(16, 24)

#: How the program is instrumented: "asan" for ranges and undefined behaviour, "race" for races.
MODES = {
    "asan": [
        *("-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
        "-fno-omit-frame-pointer",
    ],
    "race": ["-fsanitize=thread", "-fno-pie"],
}
# Metal's literals without suffix are floats, and it has no contraction across expressions.
_FLAGS = [
    *("-x", "c++", "-std=c++17", "-nostdinc++", "-ffp-contract=off"),
    *("-Xclang", "-cl-single-precision-constant", "-Wno-everything", "-ferror-limit=5"),
    *("-Werror=return-type", "-Werror=uninitialized", "-Werror=sometimes-uninitialized"),
    *("-Werror=conditional-uninitialized", "-fno-caret-diagnostics"),
]


@functools.lru_cache(maxsize=1)
def tools() -> tuple[str, str]:
    """Paths of clang++ and llvm-symbolizer.

    Raises:
        EmulationError: they are not installed; names the command that does it.
    """
    for version in _VERSIONS:
        compiler = shutil.which(f"clang++-{version}")
        symbolizer = shutil.which(f"llvm-symbolizer-{version}")
        if compiler and symbolizer:
            return compiler, symbolizer
    raise EmulationError(
        "tools",
        f"clang++ and llvm-symbolizer {_VERSIONS[0]} to {_VERSIONS[-1]} are missing; on Debian:  "
        f"{INSTALL_COMMAND}   (or leave these tests out:  pytest -m 'not emulated')",
    )


@functools.lru_cache(maxsize=1)
def _cache() -> Path:
    folder = Path(tempfile.gettempdir()) / "mlpot-msl-emulator"
    folder.mkdir(exist_ok=True)
    return folder


@functools.lru_cache(maxsize=1)
def _own_digest() -> str:
    files = sorted([*FOLDER.glob("shim/*.h"), *FOLDER.glob("runtime/*")])
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def _errors(said: str) -> list[str]:
    wanted = (": error:", "undefined reference", ": fatal error")
    return [line for line in said.splitlines() if any(w in line for w in wanted)] or [said[:500]]


def check_syntax(text: str) -> list[str]:
    """Errors of the pass in which address spaces are part of the types."""
    command = [tools()[0], *_FLAGS, "-fsyntax-only", "-DEMU_AS", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    return _errors(done.stderr) if done.returncode else []


def _compile(command: list[str], target: Path, text: str | None = None) -> None:
    """Run a compiler; its file appears under its name only when it is whole."""
    partial = target.with_suffix(f".{os.getpid()}")
    done = subprocess.run(
        [*command, "-o", str(partial)], input=text, capture_output=True, text=True, check=False
    )
    if done.returncode:
        partial.unlink(missing_ok=True)
        raise EmulationError("compile", "; ".join(_errors(done.stderr)[:3]))
    partial.replace(target)


@functools.lru_cache(maxsize=2)
def _runtime(mode: str) -> Path:
    target = _cache() / f"runtime-{mode}-{_own_digest()[:16]}.o"
    if not target.exists():
        race = ["-DEMU_RACE", "-fno-pie"] if mode == "race" else []
        command = [tools()[0], "-std=c++17", "-O2", "-Wno-everything", "-fno-builtin", *race]
        _compile([*command, "-c", str(FOLDER / "runtime" / "main.cpp")], target)
    return target


def build(text: str, mode: str) -> Path:
    """The program of a kernel, compiled or from the cache.

    Raises:
        EmulationError: it does not compile.
    """
    digest = hashlib.sha256("\0".join([mode, _own_digest(), text]).encode()).hexdigest()[:24]
    program = _cache() / digest
    if not program.exists():
        object_file = _cache() / f"{digest}-{os.getpid()}.o"
        _compile([tools()[0], *_FLAGS, "-O1", "-g1", *MODES[mode], "-c", "-"], object_file, text)
        link = ["-no-pie"] if mode == "race" else MODES[mode]
        try:
            _compile([tools()[0], *link, str(object_file), str(_runtime(mode)), "-lm"], program)
        finally:
            object_file.unlink()
    return program


def environment() -> dict[str, str]:
    """Environment of the programs."""
    options = f"external_symbolizer_path={tools()[1]}:detect_leaks=0"
    options += ":detect_stack_use_after_return=0"
    return {**os.environ, "ASAN_SYMBOLIZER_PATH": tools()[1], "ASAN_OPTIONS": options}


def kernel_lines(program: Path, addresses: list[str]) -> list[str]:
    """Lines of the kernel's text at some addresses of a program built for races."""
    at = [hex(int(address, 16) - 1) for address in addresses]
    command = [tools()[1], "--no-inlines", "-s", "-e", str(program), *at]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return re.findall(r"\w+\.(?:metal|h):(\d+)", said)


def digest_of(said: str, code: int) -> str:
    """The one line that matters in what a sanitizer wrote."""
    pattern = r"(runtime error: [^\n]*|ERROR: AddressSanitizer: [\w-]+[^\n]{0,60}|EMU [^\n]*)"
    what = re.search(pattern, said)
    lines = sorted({int(line) for line in re.findall(r"\.metal:(\d+)", said)})
    where = f" at kernel line(s) {lines[:6]}" if lines else ""
    return (what.group(1) if what else f"exit code {code} {said[-200:]}") + where
