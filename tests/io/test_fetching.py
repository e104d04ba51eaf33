"""Published potentials from a server on this machine: whole, broken, changed, resumed."""

from __future__ import annotations

import base64
import hashlib
import http.server
import sys
import threading
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from reference_outputs import FIXTURES, check_outputs

import mlpot
from mlpot import io
from mlpot.calculators import MLPotCalculator
from mlpot.cli.app import main
from mlpot.io import fetching, locating, registry
from mlpot.io.locating import fetched_path
from mlpot.io.registry import Published, WheelMember

CONTENT = (FIXTURES / "nequix_small.nqx").read_bytes()


class Server:
    """Serves one content; ``mode`` says how badly. Remembers the ranges that were asked for."""

    def __init__(self):
        self.mode, self.content, self.ranges = "whole", CONTENT, []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.answer(self)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()
        self.address = f"http://127.0.0.1:{self.server.server_port}/model.nqx"

    def answer(self, handler):
        asked = handler.headers.get("Range")
        self.ranges.append(asked)
        content, status = self.content, 200
        if asked and self.mode == "unsatisfiable":
            self.mode = "whole"
            handler.send_error(416)
            return
        if self.mode == "gone":
            handler.send_error(404)
            return
        if asked and self.mode != "no ranges":
            content, status = content[int(asked.split("=")[1].rstrip("-")) :], 206
        handler.send_response(status)
        if self.mode != "endless":
            handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        half = len(content) // 2
        handler.wfile.write(content[:half] if self.mode == "truncated" else content)
        if self.mode == "endless":
            handler.wfile.write(b"x" * 10**6)

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def server():
    own = Server()
    yield own
    own.stop()


def entry(**changes) -> Published:
    standard = Published(
        name="small",
        file="nequix_small.nqx",
        size=len(CONTENT),
        sha256=hashlib.sha256(CONTENT).hexdigest(),
        source="",
        licence="CC0",
        citation="A. Author, J. Tests 1, 2 (2026)",
        training_data="random numbers",
    )
    return replace(standard, **changes)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    # Not MLPOT_CACHE_DIR: the compiled kernels lie there too.
    monkeypatch.setattr(locating, "cache_folder", lambda: tmp_path / "cache")
    return tmp_path / "cache"


@pytest.fixture
def register(monkeypatch):
    def add(one: Published) -> None:
        monkeypatch.setitem(registry.PUBLISHED, one.name, one)

    return add


def test_fetched_potentials_go_by_their_name(server, register, capsys):
    register(entry(source=server.address))
    with pytest.raises(FileNotFoundError, match="run mlpot fetch small"):
        mlpot.load("small")
    with pytest.raises(FileNotFoundError, match="run mlpot fetch small"):
        MLPotCalculator("small")
    seen = []
    path = io.fetch("small", progress=lambda done, total: seen.append((done, total)))
    assert path == fetched_path("small")
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    check_outputs(mlpot.load("small"), FIXTURES / "nequix_small.json")
    assert MLPotCalculator("small").potential.numbers == [11, 14, 17]
    assert server.ranges == [None]
    io.fetch("small")
    assert server.ranges == [None]
    io.fetch("small", force=True)
    assert server.ranges == [None, None]
    with pytest.raises(SystemExit) as ended:
        main(["info", "small"])
    assert not ended.value.code
    printed = capsys.readouterr().out
    for text in ("CC0", "A. Author", "random numbers", server.address, "4 Angstrom"):
        assert text in printed
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_a_file_of_that_name_comes_first(register, tmp_path, monkeypatch):
    register(entry())
    fetching.fetch("small", file=FIXTURES / "nequix_small.nqx")
    monkeypatch.chdir(tmp_path)
    Path("small").write_bytes(b"not a model")
    with pytest.raises(ValueError, match="not a readable safetensors file"):
        mlpot.load("small")


def test_a_broken_connection_is_told_and_gone_on_with(server, register):
    register(entry(source=server.address))
    server.mode = "truncated"
    half = len(CONTENT) // 2
    with pytest.raises(ValueError, match=f"after {half} of {len(CONTENT)} bytes; run the command"):
        io.fetch("small")
    assert not fetched_path("small").exists()
    server.mode = "whole"
    io.fetch("small")
    assert server.ranges == [None, f"bytes={half}-"]
    check_outputs(mlpot.load("small"), FIXTURES / "nequix_small.json")


@pytest.mark.parametrize("mode", ["no ranges", "unsatisfiable"])
def test_servers_that_cannot_go_on_send_all_again(server, register, mode):
    register(entry(source=server.address))
    server.mode = "truncated"
    with pytest.raises(ValueError, match="run the command again"):
        io.fetch("small")
    server.mode = mode
    io.fetch("small")
    check_outputs(mlpot.load("small"), FIXTURES / "nequix_small.json")


def test_a_changed_file_is_refused_and_not_kept(server, register, cache):
    register(entry(source=server.address))
    server.content = CONTENT[:-1] + bytes([CONTENT[-1] ^ 1])
    with pytest.raises(ValueError, match=r"not the registered file.*By hand: bring"):
        io.fetch("small")
    assert list((cache / "models").iterdir()) == []


@pytest.mark.parametrize("length", [10, len(CONTENT) + 1])
def test_a_file_of_another_size_is_refused(server, register, length):
    register(entry(source=server.address))
    server.content = (CONTENT * 2)[:length]
    with pytest.raises(ValueError, match=f"has {length} bytes instead of"):
        io.fetch("small")


def test_an_endless_answer_is_cut_off(server, register, cache):
    register(entry(source=server.address))
    server.mode = "endless"
    with pytest.raises(ValueError, match="is larger than"):
        io.fetch("small")
    assert sum(p.stat().st_size for p in cache.rglob("*") if p.is_file()) <= len(CONTENT)


def test_moved_files_and_no_network_are_told_with_the_way_by_hand(server, register, capsys):
    register(entry(source=server.address))
    server.mode = "gone"
    with pytest.raises(ValueError, match=r"answers 404.*--file nequix_small.nqx"):
        io.fetch("small")
    register(entry(source="http://127.0.0.1:9/model.nqx"))
    with pytest.raises(SystemExit) as ended:
        main(["fetch", "small"])
    assert ended.value.code == 1
    assert "cannot be reached" in capsys.readouterr().err
    register(entry(source="file:///etc/passwd"))
    with pytest.raises(ValueError, match="no address of http"):
        io.fetch("small")


def test_files_that_are_here_are_used(register, tmp_path, capsys):
    register(entry(source="http://127.0.0.1:9/model.nqx"))
    own = tmp_path / "renamed.bin"
    own.write_bytes(CONTENT)
    out = tmp_path / "out.safetensors"
    with pytest.raises(SystemExit) as ended:
        main(["fetch", "small", "--file", str(own), "--out", str(out)])
    assert not ended.value.code
    assert "A. Author" in capsys.readouterr().out
    check_outputs(mlpot.load(out), FIXTURES / "nequix_small.json")
    own.write_bytes(CONTENT[:-1])
    with pytest.raises(ValueError, match="the file is not small"):
        io.fetch("small", file=own)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        io.fetch("small", file=tmp_path / "nothing")
    with pytest.raises(SystemExit) as ended:
        main(["fetch", "small", "--file", str(own), "--out", str(out)])
    assert ended.value.code == 1
    assert "--force" in capsys.readouterr().err


def test_unknown_names_are_told_with_the_closest(capsys):
    with pytest.raises(ValueError, match="did you mean 'nequix-mp-1'"):
        io.fetch("nequix-mp1")
    with pytest.raises(FileNotFoundError, match="did you mean the published potential nequix-mp-1"):
        mlpot.load("nequix-mp1")
    with pytest.raises(SystemExit) as ended:
        main(["fetch"])
    assert not ended.value.code
    printed = capsys.readouterr().out
    assert all(name in printed for name in registry.PUBLISHED)


MEMBER = "tinypotential/weights/model.nqx"


def make_wheel(folder: Path, content: bytes = CONTENT) -> Path:
    """A wheel that pip takes."""
    info = "tinypotential-1.0.dist-info"
    files = {
        "tinypotential/__init__.py": b"raise RuntimeError('never to be imported')\n",
        MEMBER: content,
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: tinypotential\nVersion: 1.0\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\n"
        b"Tag: py3-none-any\n",
    }
    digests = {
        name: base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        for name, data in files.items()
    }
    record = "".join(f"{name},sha256={d},{len(files[name])}\n" for name, d in digests.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    path = folder / "tinypotential-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


@pytest.fixture
def from_wheel(register, monkeypatch):
    register(entry(source=WheelMember("tinypotential==1.0", "tinypotential", MEMBER)))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    monkeypatch.delenv("PIP_CONSTRAINT", raising=False)


def test_wheels_come_through_pip(from_wheel, tmp_path, monkeypatch):
    make_wheel(tmp_path)
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    said = []
    io.fetch("small", say=said.append)
    assert "tinypotential==1.0" in said[0]
    check_outputs(mlpot.load("small"), FIXTURES / "nequix_small.json")
    assert [p.name for p in fetched_path("small").parent.iterdir()] == ["small.safetensors"]


def test_pip_without_an_index_is_told(from_wheel, tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(ValueError, match=r"pip could not download .*ERROR.*--file WHEEL"):
        io.fetch("small")


def test_wheels_that_are_here_are_used(from_wheel, tmp_path):
    wheel = make_wheel(tmp_path)
    io.fetch("small", file=wheel)
    check_outputs(mlpot.load("small"), FIXTURES / "nequix_small.json")
    for content, problem in ((CONTENT[:-1], "bytes; the registered"), (CONTENT[::-1], "not small")):
        make_wheel(tmp_path, content)
        with pytest.raises(ValueError, match=problem):
            io.fetch("small", file=wheel)
    wheel.write_bytes(b"no zip")
    with pytest.raises(ValueError, match="is no wheel"):
        io.fetch("small", file=wheel)


def test_installed_packages_are_used_without_being_imported(from_wheel, tmp_path, monkeypatch):
    with zipfile.ZipFile(make_wheel(tmp_path)) as archive:
        archive.extractall(tmp_path / "site")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    said = []
    io.fetch("small", say=said.append)
    assert "site/tinypotential/weights/model.nqx" in said[0]
    assert "tinypotential" not in sys.modules
    check_outputs(mlpot.load("small"), FIXTURES / "nequix_small.json")
