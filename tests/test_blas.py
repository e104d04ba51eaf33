"""MLX's matrix products on a real BLAS: what is chosen, that it computes, and that it says so."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time

import mlx.core as mx
import numpy as np
import pytest
from seeds import generator

from mlpot import _blas
from mlpot._elf import ElfError, FunctionPointers

LINUX = platform.system() == "Linux"


def run(code: str, **env: str) -> str:
    """Output of a Python program in its own process."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.stdout + done.stderr


@pytest.fixture
def routed():
    """The state that importing mlpot left, whatever a test does to it."""
    before = _blas.status()
    yield before
    _blas.restore()
    if before.active:
        _blas.route()
        _blas.set_num_threads(before.threads)


def seconds(size: int = 256) -> float:
    with mx.stream(mx.cpu):
        a = mx.ones((size, size))
        mx.eval(a @ a)
        best = 1.0
        for _ in range(20):
            start = time.perf_counter()
            mx.eval(a @ a)
            best = min(best, time.perf_counter() - start)
    return best


def test_importing_mlpot_routes_on_linux_only(routed):
    assert routed.active == LINUX
    assert bool(routed.reason) == (not LINUX)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (7, 1, 5), (33, 64, 17), (130, 3, 129)])
def test_products_are_those_of_numpy(dtype, shape):
    rng = generator()
    n, k, m = shape
    a, b = rng.normal(size=(n, k)), rng.normal(size=(m, k))
    if dtype == "complex64":
        a = a + 1j * rng.normal(size=(n, k))
    with mx.stream(mx.cpu):
        left = mx.array(a, dtype=getattr(mx, dtype))
        right = mx.array(b, dtype=getattr(mx, dtype))
        got = np.array(left @ right.T)
    want = np.array(left).astype(complex) @ np.array(right).astype(complex).T
    bound = 1e-14 if dtype == "float64" else 1e-6
    assert np.abs(got - want).max() <= bound * k * np.abs(a).max() * np.abs(b).max()


def test_restore_gives_mlx_its_own_back_and_route_is_much_faster(routed):
    _blas.set_num_threads(1)  # a busy second core must not matter
    fast = seconds()
    _blas.restore()
    assert not _blas.status().active
    own = seconds()
    assert not LINUX or own > 3 * fast
    again = _blas.route()
    assert again.active == LINUX
    assert _blas.route() == again


def test_threads_are_settable(routed):
    _blas.set_num_threads(1)
    assert _blas.status().threads == (1 if LINUX else 0)
    with pytest.raises(ValueError, match="n=0"):
        _blas.set_num_threads(0)


def test_number_of_threads_comes_from_the_environment(monkeypatch):
    monkeypatch.setenv("MLPOT_NUM_THREADS", "3")
    assert _blas.num_threads() == 3
    monkeypatch.setenv("MLPOT_NUM_THREADS", "two")
    with pytest.raises(ValueError, match="MLPOT_NUM_THREADS='two'"):
        _blas.num_threads()
    monkeypatch.delenv("MLPOT_NUM_THREADS")
    assert 1 <= _blas.num_threads() <= (os.cpu_count() or 1)


SHOW = "import mlpot; from mlpot import _blas; print(_blas.status())"


def test_switched_off_by_environment():
    out = run(SHOW, MLPOT_BLAS="0")
    assert "active=False" in out
    assert not LINUX or "MLPOT_BLAS=0" in out


def test_a_named_library_that_is_missing_is_reported_and_mlx_still_runs():
    code = SHOW + "; import mlx.core as mx; print((mx.ones((2, 2)) @ mx.ones((2, 2))).sum())"
    out = run(code, MLPOT_BLAS="/nowhere/libblas.so")
    assert "active=False" in out
    assert not LINUX or "/nowhere/libblas.so" in out
    assert "array(8" in out


def test_a_library_without_the_functions_is_refused():
    out = run(SHOW, MLPOT_BLAS="libm.so.6")
    assert "active=False" in out
    assert not LINUX or "does not export cblas_sgemm" in out


def test_works_when_mlx_was_imported_and_used_before():
    code = "import mlx.core as mx; mx.eval(mx.ones((9, 9)) @ mx.ones((9, 9)))\n" + SHOW
    assert f"active={LINUX}" in run(code)


def test_an_absent_library_is_an_error_of_the_elf_reader():
    if LINUX:
        with pytest.raises(ElfError, match="is not loaded"):
            FunctionPointers("libnowhere.so")
        assert set(FunctionPointers("libmlx.so").find(["cblas_sgemm", "no_such"])) == {
            "cblas_sgemm"
        }
    else:
        assert not _blas.status().active
