"""A file is written completely or not at all."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import mlpot
from mlpot.files import atomic_write, temporary_beside


def test_new_content_replaces_old(tmp_path):
    path = tmp_path / "model.bin"
    path.write_bytes(b"old")
    with atomic_write(path) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["model.bin"]


def test_text_is_utf8(tmp_path):
    with atomic_write(tmp_path / "a.txt", "w") as file:
        file.write("Å")
    assert (tmp_path / "a.txt").read_bytes() == "Å".encode()


def test_exception_keeps_the_old_file(tmp_path):
    path = tmp_path / "model.bin"
    path.write_bytes(b"old")
    with pytest.raises(TypeError), atomic_write(path) as file:
        file.writelines([b"half", 1])
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["model.bin"]


def test_killed_process_keeps_the_old_file(tmp_path):
    path = tmp_path / "model.bin"
    path.write_bytes(b"old")
    code = f"""
import os, signal
from mlpot.files import atomic_write
with atomic_write({str(path)!r}) as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(mlpot.__file__).parents[1])}
    result = subprocess.run([sys.executable, "-c", code], env=environment, check=False)
    assert result.returncode == -9
    assert path.read_bytes() == b"old"


def test_permissions_follow_the_umask(tmp_path):
    umask = os.umask(0o027)
    try:
        with atomic_write(tmp_path / "a") as file:
            file.write(b"x")
    finally:
        os.umask(umask)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


def test_temporary_name_keeps_the_suffix(tmp_path):
    with temporary_beside(tmp_path / "data.npz") as temporary:
        assert temporary.suffix == ".npz"
        assert temporary.parent == tmp_path
        temporary.write_bytes(b"x")
    assert (tmp_path / "data.npz").read_bytes() == b"x"


def test_errors(tmp_path):
    with pytest.raises(FileNotFoundError, match="make it first"), atomic_write(tmp_path / "a/b"):
        pass
    with pytest.raises(ValueError, match="'ab'"), atomic_write(tmp_path / "b", "ab"):
        pass
    with pytest.raises(FileNotFoundError), temporary_beside(tmp_path / "c"):
        pass
    assert os.listdir(tmp_path) == []
