"""Importing mlpot: quick, full float32 precision, a clear word where MLX has no backend."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time

import pytest

import mlpot

# Stands for a Linux machine with mlx but none of its backends.
BLOCK_MLX = """
    import sys
    class Block:
        def find_spec(self, name, path=None, target=None):
            if name == "mlx.core":
                raise ImportError("libmlx.so: cannot open shared object file")
    sys.meta_path.insert(0, Block())
"""


def run(code: str, *, warnings: str = "error", **environment: str) -> subprocess.CompletedProcess:
    kept = {key: value for key, value in os.environ.items() if key != "MLX_ENABLE_TF32"}
    root = os.path.dirname(os.path.dirname(mlpot.__file__))
    return subprocess.run(
        [sys.executable, "-W", warnings, "-c", textwrap.dedent(code)],
        env={**kept, "PYTHONPATH": root, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_import_is_quick_and_light():
    code = """
        import sys
        import mlpot
        heavy = {"numpy", "ase", "h5py", "yaml", "pydantic", "matplotlib", "phonopy", "typer"}
        print(sorted(heavy & set(sys.modules)))
    """
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        result = run(code)
        best = min(best, time.perf_counter() - start)
        assert result.stdout.strip() == "[]", result.stdout + result.stderr
    # The interpreter itself takes about 0.05 s.
    assert best < 1.0


def test_names_are_found_on_first_use():
    assert mlpot.elements.symbol(29) == "Cu"
    assert {"load", "save", "o3", "models", "__version__"} <= set(dir(mlpot))
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = mlpot.no_such_thing


def test_tf32_is_off_by_default():
    result = run("import mlpot, os; print(os.environ['MLX_ENABLE_TF32'])")
    assert result.stdout.strip() == "0"
    assert result.stderr == ""


def test_tf32_choice_of_the_user_is_kept():
    result = run("import mlpot, os; print(os.environ['MLX_ENABLE_TF32'])", MLX_ENABLE_TF32="1")
    assert result.stdout.strip() == "1"
    assert result.stderr == ""


MLX_FIRST = """
    import mlx.core as mx
    mx.is_available = lambda device: {gpu}
    import mlpot
    import importlib
    importlib.reload(mlpot)
"""


def test_one_warning_if_mlx_runs_with_tf32_already():
    result = run(MLX_FIRST.format(gpu=True), warnings="always")
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("RuntimeWarning") == 1
    assert "MLX_ENABLE_TF32=0" in result.stderr


@pytest.mark.parametrize(("gpu", "setting"), [(False, {}), (True, {"MLX_ENABLE_TF32": "0"})])
def test_no_warning_where_tf32_is_off_or_there_is_no_gpu(gpu, setting):
    result = run(MLX_FIRST.format(gpu=gpu), **setting)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""


@pytest.mark.parametrize("statement", ["import mlpot.o3", "from mlpot import o3"])
def test_missing_backend_is_told_with_the_command(statement):
    result = run(textwrap.dedent(BLOCK_MLX) + "import mlpot\n" + statement)
    assert result.returncode == 1
    assert "pip install" in result.stderr
    assert "libmlx.so: cannot open" in result.stderr


def test_without_backend_units_and_doctor_work():
    code = textwrap.dedent(BLOCK_MLX) + textwrap.dedent("""
        from mlpot import units
        from mlpot.cli.app import main
        assert units.HARTREE > 27
        main(["doctor"])
    """)
    result = run(code)
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    assert "pip install" in result.stdout


@pytest.mark.parametrize(
    ("system", "driver", "command"),
    [
        ("Darwin", False, "pip install --upgrade mlx"),
        ("Linux", False, 'pip install "mlpot[cpu]"'),
        ("Linux", True, 'pip install "mlpot[cuda13]"'),
    ],
)
def test_install_hint_fits_the_machine(monkeypatch, system, driver, command):
    from mlpot import _backend

    monkeypatch.setattr("platform.system", lambda: system)
    monkeypatch.setattr("os.path.exists", lambda path: driver)
    assert _backend.install_hint().startswith(command)
