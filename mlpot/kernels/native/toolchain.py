"""What is needed to compile the kernels here, and what a compiled file depends on."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import mlx.core as mx

SOURCES = Path(__file__).parent / "src"

# The nanobind series that the wheels of MLX are made with: another one compiles, but its functions
# reject every mx.array.
NANOBIND_SERIES = "3.1."


class CannotBuildError(Exception):
    """The kernels cannot be compiled or loaded here; the message is one line for the user."""


def find_compiler() -> list[str]:
    """The C++ compiler: ``CXX``, or g++, clang++, c++ from the path.

    Raises:
        CannotBuildError: there is none.
    """
    wanted = shlex.split(os.environ.get("CXX", ""))
    if wanted:
        if shutil.which(wanted[0]) is None:
            raise CannotBuildError(f"the compiler CXX={wanted[0]} is not found")
        return wanted
    for name in ("g++", "clang++", "c++"):
        path = shutil.which(name)
        if path:
            return [path]
    hint = "xcode-select --install" if sys.platform == "darwin" else "apt-get install g++"
    raise CannotBuildError(f"no C++ compiler is found ({hint})")


@dataclass(frozen=True)
class Packages:
    """Folders of what the kernels are compiled against."""

    mlx: Path
    nanobind: Path
    python_headers: Path

    @property
    def library_folder(self) -> Path:
        """Folder of libmlx."""
        return self.mlx / "lib"

    def include_folders(self) -> list[Path]:
        """Folders of headers."""
        return [
            self.mlx / "include",
            self.nanobind / "include",
            self.nanobind / "ext" / "robin_map" / "include",
            self.python_headers,
        ]


def _folder_of(package: str) -> Path | None:
    spec = importlib.util.find_spec(package)
    locations = list(spec.submodule_search_locations or []) if spec else []
    return Path(locations[0]) if locations else None


def mlx_folder() -> Path:
    """Folder of the package mlx whose library is loaded.

    The package has no ``__init__``: any folder named mlx on the path, such as MLX's own cache of
    compiled code, counts as a part of it for an import.
    """
    return Path(mx.__file__).parent


def find_packages() -> Packages:
    """Locate MLX, nanobind and the headers of Python.

    Raises:
        CannotBuildError: one is missing, or nanobind is of another series than MLX's.
    """
    nanobind = _folder_of("nanobind")
    if nanobind is None:
        raise CannotBuildError(f"nanobind is missing (pip install 'nanobind=={NANOBIND_SERIES}*')")
    version = importlib.metadata.version("nanobind")
    if not version.startswith(NANOBIND_SERIES):
        raise CannotBuildError(
            f"nanobind {version} does not fit MLX (pip install 'nanobind=={NANOBIND_SERIES}*')"
        )
    headers = Path(sysconfig.get_path("include"))
    if not (headers / "Python.h").exists():
        raise CannotBuildError(f"the headers of Python are missing: no Python.h in {headers}")
    packages = Packages(mlx_folder(), nanobind, headers)
    if not (packages.mlx / "include" / "mlx" / "array.h").exists():
        raise CannotBuildError(f"the headers of MLX are missing in {packages.mlx}")
    return packages


def compile_flags() -> list[str]:
    """Flags of the compiler for every source file."""
    native = "-mcpu=native" if platform.machine() in ("arm64", "aarch64") else "-march=native"
    return [
        *("-std=c++20", "-O3", native, "-fPIC", "-fvisibility=hidden", "-fno-strict-aliasing"),
        *("-ffp-contract=fast", "-DNDEBUG", "-DNB_DOMAIN=mlx"),
    ]


def link_flags(packages: Packages) -> list[str]:
    """Flags of the linker."""
    folder = str(packages.library_folder)
    flags = ["-shared", f"-L{folder}", "-lmlx", f"-Wl,-rpath,{folder}", "-pthread"]
    return [*flags, "-undefined", "dynamic_lookup"] if sys.platform == "darwin" else flags


def _cpu() -> str:
    """The processor's instruction sets: a home folder may be shared by unlike machines."""
    if sys.platform == "darwin":
        done = subprocess.run(
            ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"],
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout.strip()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.lower().startswith(("flags", "features"))), "")


def source_files() -> list[Path]:
    """Every file of the kernels."""
    return sorted(p for p in SOURCES.iterdir() if p.suffix in (".cpp", ".h"))


@functools.cache
def fingerprint() -> str:
    """What a compiled file is good for: MLX, Python, processor, flags and sources, as a hash."""
    libraries = sorted((mlx_folder() / "lib").glob("libmlx.*"))
    parts = [
        importlib.metadata.version("mlx"),
        *(f"{p.name} {p.stat().st_size}" for p in libraries),
        str(sysconfig.get_config_var("SOABI")),
        platform.machine(),
        _cpu(),
        " ".join(compile_flags()),
    ]
    digest = hashlib.sha256("\0".join(parts).encode())
    for path in source_files():
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:20]
