"""Compiling and caching of the kernels: every way in which it can go wrong, and side by side.

A stand-in for the compiler takes the place of the real one: it notes its calls, writes empty
objects, and "links" by copying the library that the other tests use.
"""

from __future__ import annotations

import importlib.metadata
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from mlpot.kernels import native
from mlpot.kernels.native import builder, toolchain

COMPILER = """#!{python}
import os, shutil, sys, time
target = sys.argv[sys.argv.index("-o") + 1]
kind = "compile" if "-c" in sys.argv else "link"
with open({log!r}, "a") as log:
    log.write(kind + "\\n")
time.sleep({seconds})
if {fails} and kind == "compile":
    sys.exit("kernel.cpp:1: error: the compiler is broken")
if kind == "compile" or not {library!r}:
    open(target, "w").close()
else:
    shutil.copy({library!r}, target)
"""

SHOW = """
from mlpot.kernels import native
print("available", native.available())
print("why", native.why_not())
"""


@pytest.fixture
def real_library() -> str:
    assert native.available(), native.why_not()
    return str(builder.library_path())


class Workshop:
    """A cache folder and a compiler of its own."""

    def __init__(self, folder: Path) -> None:
        self.cache = folder / "cache"
        self.log = folder / "log"
        self.compiler = folder / "compiler"

    def make_compiler(self, library: str = "", fails: bool = False, seconds: float = 0.0) -> None:
        self.compiler.write_text(
            COMPILER.format(
                python=sys.executable,
                log=str(self.log),
                library=library,
                fails=fails,
                seconds=seconds,
            )
        )
        self.compiler.chmod(self.compiler.stat().st_mode | stat.S_IXUSR)

    def environment(self, **more: str) -> dict[str, str]:
        own = {"MLPOT_CACHE_DIR": str(self.cache), "CXX": str(self.compiler), **more}
        return {**os.environ, **own}

    def start(self, code: str = SHOW, **more: str) -> subprocess.Popen:
        return subprocess.Popen(
            [sys.executable, "-c", code],
            env=self.environment(**more),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, code: str = SHOW, **more: str) -> tuple[str, str]:
        out, err = self.start(code, **more).communicate(timeout=60)
        return out, err

    def calls(self, kind: str) -> int:
        return self.log.read_text().split().count(kind) if self.log.exists() else 0


@pytest.fixture
def workshop(tmp_path) -> Workshop:
    return Workshop(tmp_path)


def test_first_use_compiles_and_says_so_and_the_next_loads(workshop, real_library):
    workshop.make_compiler(real_library)
    out, err = workshop.run()
    assert "available True" in out
    assert err.count("compiling the CPU kernels") == 1
    assert "done in" in err
    assert workshop.calls("link") == 1
    out, err = workshop.run()
    assert "available True" in out
    assert err == ""
    assert workshop.calls("link") == 1
    names = [p.suffix for p in workshop.cache.iterdir()]
    assert sorted(names) == [".lock", ".so"]


def test_two_processes_compile_once(workshop, real_library):
    workshop.make_compiler(real_library, seconds=0.1)
    both = [workshop.start() for _ in range(2)]
    outputs = [p.communicate(timeout=60) for p in both]
    assert all("available True" in out for out, _ in outputs)
    assert workshop.calls("link") == 1


def test_a_broken_compiler_gives_one_line_and_is_not_tried_again(workshop):
    workshop.make_compiler(fails=True)
    out, err = workshop.run()
    assert "available False" in out
    assert "error: the compiler is broken" in out
    assert len(out.splitlines()) == 2
    assert "failed" in err
    before = workshop.calls("compile")
    assert before > 0
    out, err = workshop.run()
    assert "error: the compiler is broken" in out
    assert err == ""
    assert workshop.calls("compile") == before
    assert not list(workshop.cache.glob("*.so")) and not list(workshop.cache.glob("build-*"))


def test_build_tries_again(workshop, real_library):
    workshop.make_compiler(fails=True)
    workshop.run()
    workshop.make_compiler(real_library)
    code = "print(native.cache_state(), native.build(), native.why_not())"
    out, _ = workshop.run(f"from mlpot.kernels import native; {code}")
    assert out.split() == ["failed", "True"]


def test_a_file_in_the_cache_that_does_not_load_is_made_anew(workshop, real_library, monkeypatch):
    workshop.make_compiler(real_library)
    monkeypatch.setenv("MLPOT_CACHE_DIR", str(workshop.cache))
    workshop.cache.mkdir()
    builder.library_path().write_bytes(b"not a library")
    out, err = workshop.run()
    assert "available True" in out
    assert "compiling" in err


def test_a_build_that_does_not_load_is_given_up(workshop):
    workshop.make_compiler(library="")
    out, _ = workshop.run()
    assert "available False" in out
    assert "do not work" in out
    calls = workshop.calls("link")
    out, _ = workshop.run()
    assert "do not work" in out
    assert workshop.calls("link") == calls


def test_no_compiler(workshop):
    out, err = workshop.run(CXX="", PATH=str(workshop.cache))
    assert "available False" in out
    assert "no C++ compiler is found" in out
    assert "Traceback" not in err


def test_a_named_compiler_that_is_missing(workshop):
    out, _ = workshop.run(CXX="/nowhere/g++ -O0")
    assert "the compiler CXX=/nowhere/g++ is not found" in out


def test_a_cache_that_cannot_be_written(workshop):
    workshop.make_compiler()
    workshop.cache.write_text("a file, not a folder")
    out, _ = workshop.run()
    assert "available False" in out
    assert "the cache folder cannot be used" in out


def test_switched_off(workshop):
    workshop.make_compiler()
    out, err = workshop.run(MLPOT_NATIVE="0")
    assert "switched off by MLPOT_NATIVE=0" in out
    assert err == ""
    assert workshop.calls("compile") == 0


def test_the_number_of_threads_comes_from_the_environment(workshop, real_library):
    workshop.make_compiler(real_library)
    code = "from mlpot.kernels import native; print(native.num_threads())"
    out, _ = workshop.run(code, MLPOT_NUM_THREADS="3")
    assert out.strip() == "3"


def test_asking_for_the_state_compiles_nothing(workshop):
    workshop.make_compiler()
    out, _ = workshop.run("from mlpot.kernels import native; print(native.cache_state())")
    assert out.strip() == "absent"
    assert workshop.calls("compile") == 0


def test_nanobind_of_another_series_is_refused(monkeypatch):
    assert toolchain.find_packages().nanobind.name == "nanobind"
    monkeypatch.setattr(toolchain, "NANOBIND_SERIES", "2.7.")
    with pytest.raises(toolchain.CannotBuildError, match=r"does not fit MLX \(pip install"):
        toolchain.find_packages()


def test_missing_packages_are_named(monkeypatch):
    monkeypatch.setattr(toolchain, "_folder_of", lambda name: None)
    with pytest.raises(toolchain.CannotBuildError, match="nanobind is missing"):
        toolchain.find_packages()


def test_a_folder_named_mlx_is_not_taken_for_the_package(workshop, tmp_path):
    (tmp_path / "mlx").mkdir()
    code = "from mlpot.kernels.native import toolchain; print(toolchain.mlx_folder())"
    out, _ = workshop.run(code, PYTHONPATH=os.pathsep.join([str(tmp_path), os.getcwd()]))
    assert Path(out.strip()) == toolchain.mlx_folder()
    assert (toolchain.mlx_folder() / "include" / "mlx" / "array.h").exists()


@pytest.mark.parametrize("what", ["_cpu", "compile_flags", "source_files", "MLX"])
def test_the_cache_key_depends_on(what, monkeypatch, tmp_path):
    toolchain.fingerprint.cache_clear()
    before = toolchain.fingerprint()
    extra = tmp_path / "more.cpp"
    extra.write_text("int more;")
    changed = {
        "_cpu": lambda: "another processor",
        "compile_flags": lambda: ["-O0"],
        "source_files": lambda: [extra],
    }
    if what == "MLX":
        monkeypatch.setattr(importlib.metadata, "version", lambda _: "0.0.1")
    else:
        monkeypatch.setattr(toolchain, what, changed[what])
    toolchain.fingerprint.cache_clear()
    assert toolchain.fingerprint() != before
    monkeypatch.undo()
    toolchain.fingerprint.cache_clear()
    assert toolchain.fingerprint() == before


def test_set_num_threads_needs_a_positive_number():
    with pytest.raises(ValueError, match="n=0"):
        native.set_num_threads(0)
