"""What has to be settled when MLX starts: TF32, BLAS, memory, and a clear word without backend."""

from __future__ import annotations

import importlib.abc
import os
import platform
import sys
import warnings

from . import _blas, _memory

# These run without MLX, so that `mlpot doctor` can say what is missing.
_WITHOUT_MLX = (
    *("_backend", "_blas", "_elf", "_memory"),
    *("cli", "config", "elements", "files", "units"),
)


def install_hint() -> str:
    """The command that installs the right MLX backend for this machine."""
    if platform.system() == "Darwin":
        return "pip install --upgrade mlx"
    if os.path.exists("/proc/driver/nvidia/version"):
        return 'pip install "mlpot[cuda13]"    (or "mlpot[cuda12]" for drivers older than 580)'
    return 'pip install "mlpot[cpu]"'


def missing_backend_message(error: ImportError) -> str:
    """What to tell a user whose MLX cannot be imported."""
    return (
        "MLX cannot be imported: it is not installed, or its backend for this machine is missing.\n"
        f"Install it with:  {install_hint()}\n"
        "One environment holds one backend; two overwrite each other.\n"
        f"(import mlx.core said: {error})"
    )


class _MissingBackend(importlib.abc.MetaPathFinder):
    """Raises one clear ImportError for every subpackage that needs MLX."""

    def __init__(self, message: str) -> None:
        self.message = message

    def find_spec(self, fullname: str, path=None, target=None) -> None:
        parts = fullname.split(".")
        if parts[0] == "mlpot" and len(parts) == 2 and parts[1] not in _WITHOUT_MLX:
            raise ImportError(self.message)


def turn_tf32_off() -> None:
    """Make float32 matrix products full precision, unless the user has set MLX_ENABLE_TF32.

    With TF32 (MLX's default on recent GPUs) products keep 10 bits of mantissa: energies drift and
    Hessian-vector products are off by several percent. MLX reads the variable at its first
    matrix product, so it is set even where MLX is imported already; whether a product ran before
    cannot be seen, hence the warning.
    """
    if "MLX_ENABLE_TF32" in os.environ:
        return
    os.environ["MLX_ENABLE_TF32"] = "0"
    mx = sys.modules.get("mlx.core")
    if mx is not None and mx.is_available(mx.gpu):
        warnings.warn(
            "mlx was imported before mlpot: float32 matrix products that already ran used TF32 "
            "(10 bits of mantissa), and then later ones will too. Import mlpot first, or set "
            "MLX_ENABLE_TF32=0 (full precision) or =1 (TF32, no warning) in the environment.",
            RuntimeWarning,
            stacklevel=4,
        )


def prepare() -> None:
    """Run once when ``mlpot`` is imported."""
    turn_tf32_off()
    _memory.keep_freed_memory()
    try:
        import mlx.core  # noqa: F401
    except ImportError as error:
        sys.meta_path.insert(0, _MissingBackend(missing_backend_message(error)))
    else:
        _blas.route()
