"""The command line: help, version, exit codes and errors in one message."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
import typer

from mlpot import __version__
from mlpot.cli import app


def run(capsys, *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as caught:
        app.main(list(words))
    output = capsys.readouterr()
    code = caught.value.code
    return (code if isinstance(code, int) else 0), output.out, output.err


@pytest.fixture
def failing_verb(monkeypatch):
    """A command line with the verb `fail` and one more, which raises what it is given."""
    errors: list[Exception] = []
    command_line = typer.Typer(pretty_exceptions_enable=False)
    command_line.callback()(app.options)

    @command_line.command()
    def fail() -> None:
        raise errors[0]

    monkeypatch.setattr(app, "app", command_line)
    return errors


def test_version(capsys):
    assert run(capsys, "--version") == (0, f"mlpot {__version__}\n", "")


def test_help_lists_the_verbs(capsys):
    code, out, _ = run(capsys, "--help")
    assert code == 0
    for verb in ("train", "resume", "eval", "singlepoint", "relax", "md", "phonons", "doctor"):
        assert f" {verb} " in out


def test_unknown_verb_is_wrong_usage(capsys):
    code, out, err = run(capsys, "doctr")
    assert (code, out) == (2, "")
    assert "doctor" in err


def test_help_is_quick():
    code = (
        "import sys; from mlpot.cli.app import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'numpy', 'ase', 'h5py', 'matplotlib', 'phonopy'} & set(sys.modules)))"
    )
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        result = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        best = min(best, time.perf_counter() - start)
        assert result.stdout.splitlines()[-1] == "[]"
    assert best < 2.0


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("r_max is -1: give a positive number"), "r_max is -1: give a positive number"),
        (KeyError("no data set 'x' in the file"), "no data set 'x' in the file"),
        (KeyError("REF_energy"), "missing key 'REF_energy'"),
        (FileNotFoundError("model 'a' does not exist"), "model 'a' does not exist"),
        (FileNotFoundError(2, "No such file or directory", "a.xyz"), "directory: a.xyz"),
        (PermissionError(13, "Permission denied", "b.xyz"), "Permission denied: b.xyz"),
        (ImportError('pip install "mlpot[cpu]"'), 'pip install "mlpot[cpu]"'),
        (RuntimeError("bug"), "RuntimeError: bug\nThis was not expected"),
    ],
)
def test_errors_are_one_message(capsys, failing_verb, error, message):
    failing_verb.append(error)
    code, out, err = run(capsys, "fail")
    assert (code, out) == (1, "")
    assert err.startswith("mlpot: error: ")
    assert message in err
    assert "Traceback" not in err


@pytest.mark.parametrize("words", [("--debug", "fail"), ("fail", "--debug")])
def test_debug_shows_the_traceback(capsys, failing_verb, words):
    failing_verb.append(ValueError("wrong"))
    code, _, err = run(capsys, *words)
    assert code == 1
    assert "Traceback" in err
    assert "ValueError: wrong" in err
