"""``mlpot doctor``: what runs here, how fast, and what to install."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table

BACKENDS = ("mlx-metal", "mlx-cpu", "mlx-cuda-12", "mlx-cuda-13")
PACKAGES = ("numpy", "ase", "vesin", "h5py", "pydantic", "matplotlib")
PHONON_PACKAGES = ("phonopy", "spglib", "seekpath")


@dataclass(frozen=True)
class Finding:
    """One line of the report.

    Attributes:
        topic: what was looked at.
        value: what was found.
        advice: what to do about it; empty where all is well.
        fatal: nothing runs, or what was asked for is not done, until the advice is followed.
    """

    topic: str
    value: str
    advice: str = ""
    fatal: bool = False


def version_of(package: str) -> str | None:
    """Installed version of a distribution, None where it is absent."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _threads(number: int) -> str:
    """Number of threads in words."""
    return f"{number} thread" if number == 1 else f"{number} threads"


def find_machine() -> list[Finding]:
    """Python, operating system and cores."""
    return [
        Finding("mlpot", version_of("mlpot") or "not installed, run from its sources"),
        Finding("Python", f"{platform.python_version()} ({sys.executable})"),
        Finding("system", f"{platform.platform()}, {os.cpu_count()} cores"),
    ]


def find_backend() -> list[Finding]:
    """MLX, its backend packages and whether it can be imported."""
    from mlpot import _backend

    installed = {name: version for name in BACKENDS if (version := version_of(name))}
    names = ", ".join(f"{name} {version}" for name, version in installed.items()) or "none"
    try:
        import mlx.core as mx
    except ImportError as error:
        advice = _backend.missing_backend_message(error)
        return [Finding("MLX", f"cannot be imported; backends installed: {names}", advice, True)]
    advice = ""
    if len(installed) > 1:
        advice = (
            "backends overwrite each other's library: uninstall all of them and mlx, then "
            + _backend.install_hint()
        )
    version = version_of("mlx") or "unknown version"
    return [
        Finding("MLX", f"{version}; backends installed: {names}", advice),
        Finding("device", _describe_device(mx)),
    ]


def _describe_device(mx) -> str:
    device = mx.default_device()
    if device.type != mx.DeviceType.gpu:
        return f"{device} (float32 and float64)"
    info = mx.device_info()
    name = info.get("device_name", info.get("architecture", "GPU"))
    memory = info.get("memory_size", info.get("total_memory", 0))
    return f"{device}: {name}, {memory / 2**30:.0f} GiB (float32; float64 runs on the CPU)"


def find_tf32() -> list[Finding]:
    """Precision of float32 matrix products on GPUs."""
    if os.environ.get("MLX_ENABLE_TF32") == "0":
        return [Finding("TF32", "off (full float32 precision)")]
    return [
        Finding(
            "TF32",
            f"on (MLX_ENABLE_TF32={os.environ.get('MLX_ENABLE_TF32')})",
            "matrix products on recent GPUs keep 10 bits: energies drift, Hessians are off by "
            "percents. Unset MLX_ENABLE_TF32 unless that is what you want",
        )
    ]


def measure_gflops(size: int = 512, seconds: float = 0.3) -> float:
    """Speed of float32 matrix products on the CPU in GFLOP/s."""
    import mlx.core as mx

    with mx.stream(mx.cpu):
        a = mx.ones((size, size))
        mx.eval(a @ a)
        count, start = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - start) < seconds:
            mx.eval(a @ a)
            count += 1
    return 2e-9 * size**3 * count / elapsed


def find_blas() -> list[Finding]:
    """The library behind MLX's matrix products on the CPU."""
    from mlpot import _blas

    speed = f"{measure_gflops():.0f} GFLOP/s in float32 matrix products"
    if platform.system() != "Linux":
        return [Finding("BLAS", f"Accelerate, {speed}")]
    status = _blas.status()
    if status.active:
        return [Finding("BLAS", f"{status.library}, {_threads(status.threads)}, {speed}")]
    slow = "matrix products on the CPU are about ten times slower than with OpenBLAS"
    return [Finding("BLAS", f"netlib reference, {speed}", f"{slow}: {status.reason}")]


def find_kernels(build: bool = False) -> list[Finding]:
    """The compiled CPU kernels; they are compiled now only if ``build``."""
    from mlpot.kernels import native

    if build:
        native.build()
    state = native.cache_state()
    off = native.switched_off()
    if state == "absent" and not off and not build:
        advice = "they are compiled at first use, or now by  mlpot doctor --build"
        return [Finding("kernels", "native: not compiled yet", advice)]
    if native.available():
        return [Finding("kernels", f"native, {_threads(native.num_threads())}")]
    advice = off or f"{native.why_not()}. When that is mended:  mlpot doctor --build"
    value = "plain MLX, many times slower than compiled ones on CPUs"
    return [Finding("kernels", value, advice, fatal=build)]


def find_cuda_kernels() -> list[Finding]:
    """How CUDA kernels are compiled, where there is an NVIDIA GPU."""
    import mlx.core as mx

    from mlpot.kernels.gpu import code_cache, compilation, nvrtc

    if not mx.cuda.is_available():
        return []
    slow = "compiled by MLX: seconds for each, in every process anew"
    if compilation.switched_off():
        return [Finding("CUDA kernels", slow, compilation.switched_off())]
    try:
        compiler = "NVRTC {}.{}".format(*nvrtc.version())
    except nvrtc.CannotCompileError as error:
        return [Finding("CUDA kernels", slow, str(error))]
    folder = code_cache.folder()
    kept = len(list(folder.iterdir())) if folder.is_dir() else 0
    return [Finding("CUDA kernels", f"{compiler}; {kept} compiled ones are kept in {folder}")]


def find_choice() -> list[Finding]:
    """What MLPOT_KERNELS asks for, if it does."""
    from mlpot.kernels import BACKENDS

    asked = os.environ.get("MLPOT_KERNELS") or "auto"
    if asked == "auto":
        return []
    advice = "" if asked in BACKENDS else f"choose one of {', '.join(BACKENDS)}, or unset it"
    return [Finding("choice", f"MLPOT_KERNELS={asked}", advice, fatal=bool(advice))]


def find_compiler() -> list[Finding]:
    """The C++ compiler that mx.compile calls on Linux CPUs."""
    if platform.system() != "Linux":
        return []
    compiler = shutil.which("g++")
    if compiler:
        return [Finding("compiler", compiler)]
    advice = "mx.compile does nothing without it: apt-get install g++"
    return [Finding("compiler", "g++ not found", advice)]


def find_packages() -> list[Finding]:
    """Versions of the packages that mlpot stands on, and of optional ones."""
    findings = [
        Finding("packages", ", ".join(f"{name} {version_of(name) or '?'}" for name in PACKAGES))
    ]
    missing = [name for name in PHONON_PACKAGES if importlib.util.find_spec(name) is None]
    versions = ", ".join(f"{name} {version_of(name)}" for name in PHONON_PACKAGES)
    if missing:
        advice = 'pip install "mlpot[phonons]"'
        findings.append(Finding("phonons", f"missing: {', '.join(missing)}", advice))
    else:
        findings.append(Finding("phonons", versions))
    return findings


def examine(build: bool = False) -> list[Finding]:
    """All findings for this machine; ``build``: compile the CPU kernels first."""
    findings = find_machine() + find_backend()
    if not any(finding.fatal for finding in findings):
        findings += find_tf32() + find_blas() + find_kernels(build) + find_cuda_kernels()
        findings += find_choice()
    return findings + find_compiler() + find_packages()


def _table(findings: list[Finding]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for finding in findings:
        table.add_row(finding.topic, Text(finding.value))
        if finding.advice:
            style = "red" if finding.fatal else "yellow"
            table.add_row("", Text(f"-> {finding.advice}", style=style))
    return table


def doctor(
    build: Annotated[bool, typer.Option("--build", help="Compile the CPU kernels now.")] = False,
) -> None:
    """Print what runs on this machine (backend, device, BLAS, versions) and what to install."""
    from rich.console import Console

    findings = examine(build)
    Console().print(_table(findings))
    if any(finding.fatal for finding in findings):
        raise typer.Exit(1)
