"""Compiles the kernels and keeps the result in the user's cache folder.

One process compiles at a time (a lock file); the finished file appears in one step (a rename), so
nobody ever loads half of it. A failure is remembered in the cache too: the next process
does not try again, only :func:`mlpot.kernels.native.build` does.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.metadata
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import toolchain
from .toolchain import CannotBuildError

# A compiler that runs longer than this hangs.
TIMEOUT_SECONDS = 600.0


def cache_folder() -> Path:
    """``MLPOT_CACHE_DIR``, or the folder ``mlpot`` among the user's caches."""
    chosen = os.environ.get("MLPOT_CACHE_DIR")
    if chosen:
        return Path(chosen)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "mlpot"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mlpot"


def library_path() -> Path:
    """Where the compiled kernels for this machine, MLX and Python are kept."""
    return cache_folder() / f"native-{toolchain.fingerprint()}.so"


def failure_path() -> Path:
    """Where the reason of a failure is kept."""
    return library_path().with_suffix(".failed")


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    with open(path, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:
            # Some network folders have no locks. The rename at the end keeps the result whole.
            yield
            return
        yield


def _say(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


def ensure(retry: bool = False, verbose: bool = False) -> Path:
    """The compiled kernels, compiling them if they are not in the cache.

    Args:
        retry: try again where it failed before.
        verbose: show the commands.

    Returns:
        Path of the library.

    Raises:
        CannotBuildError: there is no way to compile them here.
    """
    library, failure = library_path(), failure_path()
    if library.exists():
        return library
    try:
        library.parent.mkdir(parents=True, exist_ok=True)
        with _lock(library.with_suffix(".lock")):
            if library.exists():  # another process was faster
                return library
            if failure.exists() and not retry:
                raise CannotBuildError(failure.read_text())
            failure.unlink(missing_ok=True)
            try:
                _compile_to(library, verbose)
            except CannotBuildError as error:
                failure.write_text(str(error))
                raise
    except OSError as error:
        raise CannotBuildError(f"the cache folder cannot be used ({error})") from error
    return library


def discard(reason: str) -> None:
    """Remove a library that does not work, and remember why."""
    with contextlib.suppress(OSError):
        library_path().unlink(missing_ok=True)
        failure_path().write_text(reason)


def _compile_to(library: Path, verbose: bool) -> None:
    compiler, packages = toolchain.find_compiler(), toolchain.find_packages()
    includes = [f"-isystem{folder}" for folder in packages.include_folders()]
    start = time.perf_counter()
    mlx = importlib.metadata.version("mlx")
    _say(f"mlpot: compiling the CPU kernels for MLX {mlx}, once, in about 30 s ... ")
    finished = False
    try:
        with tempfile.TemporaryDirectory(dir=library.parent, prefix="build-") as folder:

            def compile_one(source: Path) -> str:
                target = os.path.join(folder, source.stem + ".o")
                flags = [*toolchain.compile_flags(), *includes]
                _run([*compiler, *flags, "-c", str(source), "-o", target], verbose)
                return target

            sources = [p for p in toolchain.source_files() if p.suffix == ".cpp"]
            sources.insert(0, packages.nanobind / "src" / "nb_combined.cpp")
            with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
                objects = list(pool.map(compile_one, sources))
            linked = os.path.join(folder, "linked.so")
            _run([*compiler, *objects, *toolchain.link_flags(packages), "-o", linked], verbose)
            os.replace(linked, library)
        finished = True
    finally:
        took = time.perf_counter() - start
        _say(f"done in {took:.1f} s\n" if finished else "failed\n")


def _run(command: list[str], verbose: bool) -> None:
    if verbose:
        _say("\n" + " ".join(command) + "\n")
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotBuildError(f"the compiler {command[0]} cannot be run ({error})") from error
    if verbose:
        _say(done.stderr)
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if "error" in line.lower()]
        said = (lines or done.stderr.splitlines() or ["nothing"])[0].strip()
        raise CannotBuildError(f"the compiler {shutil.which(command[0])} failed: {said}")
