"""Commands of the documentation that no test runs: why, and what is checked of them instead.

The only place for such exceptions. A reason has to hold on every machine of the tests.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from documentation import ROOT

_OPTION = re.compile(r"(?<![\w-])--?[a-z][a-z-]*")


@dataclass(frozen=True)
class LeftOut:
    """Commands that are not run.

    Args:
        page: where they stand; a regular expression for the whole path.
        command: how they begin; a regular expression.
        reason: why none of the machines of the tests runs them, or where they run instead.
        check: takes the command and fails where it could not work elsewhere.
    """

    page: str
    command: str
    reason: str
    check: Callable[[str], None]


def left_out(page: str, command: str) -> LeftOut | None:
    """The entry of a command; None where it has to run."""
    for entry in LEFT_OUT:
        if re.fullmatch(entry.page, page) and re.match(entry.command, command):
            return entry
    return None


@cache
def options_of(program: str) -> frozenset[str]:
    """Options that a program's help names: a script of the repository, or a command of MLX."""
    if program.endswith(".py"):
        words = [sys.executable, str(ROOT / program), "--help"]
    else:
        words = [str(Path(sys.executable).with_name(program)), "--help"]
    ended = subprocess.run(words, capture_output=True, text=True, cwd=ROOT)
    assert ended.returncode == 0, ended.stderr
    return frozenset(_OPTION.findall(ended.stdout))


def options(command: str) -> None:
    """The program is there and has these options."""
    words = shlex.split(command)
    own = words[: words.index("--")] if "--" in words else words
    program = next(word for word in own if word.endswith(".py") or word.startswith("mlx."))
    used = {word for word in own[own.index(program) + 1 :] if word.startswith("-")}
    assert used <= options_of(program), f"{program} has no {used - options_of(program)}"


def script(command: str) -> None:
    """The file is there, and bash can read it where it is bash."""
    words = shlex.split(command)
    path = ROOT / (words[1] if words[0] in ("bash", "python") else words[0])
    assert path.is_file(), path
    if path.read_bytes().startswith(b"#!/usr/bin/env bash"):
        assert subprocess.run(["bash", "-n", str(path)]).returncode == 0


def extras(command: str) -> None:
    """Extras that are installed exist."""
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    asked = re.search(r"\[([\w,]+)\]", command)
    assert asked is not None
    assert set(asked[1].split(",")) <= set(known)


def nothing(command: str) -> None:
    """For commands of other programs."""


LEFT_OUT = (
    LeftOut(
        "README.md|docs/tour.md|CONTRIBUTING.md",
        r"\./scripts/test|bash \.ci/run",
        "are what runs this test",
        script,
    ),
    LeftOut(
        "README.md|docs/tour.md",
        r"\./scripts/quickstart",
        "installs from the package index; its commands run in tests/docs/test_tour.py",
        script,
    ),
    LeftOut(
        "CONTRIBUTING.md",
        r"\.venv/bin/pre-commit install",
        "changes the checkout's git hooks",
        nothing,
    ),
    LeftOut(
        "docs/install.md",
        r"pip install",
        "installs from the package index, for one kind of machine each; CI installs the wheel",
        extras,
    ),
    LeftOut(
        "datasets/README.md", r"pip install tblite", "installs from the package index", nothing
    ),
    LeftOut(
        "datasets/README.md",
        r"python datasets/make_ethanol\.py",
        "needs tblite and five minutes",
        script,
    ),
    LeftOut(
        "datasets/README.md",
        r"python datasets/make_distorted\.py",
        "needs tblite",
        script,
    ),
    LeftOut(
        "datasets/README.md",
        r"python datasets/make_copper\.py",
        "takes a minute; tests/datasets/test_shipped.py makes half of its frames",
        script,
    ),
    LeftOut(
        "tutorials/README.md",
        r"python tutorials/train_ethanol\.py",
        "tests/test_tutorials.py runs all tutorials",
        script,
    ),
    LeftOut(
        "docs/evaluation.md",
        r"python3 -m venv|\.venv/bin/python evals/parity\.py --cases",
        "needs PyTorch and e3nn; tests have their numbers as fixtures",
        lambda command: options(command) if "parity" in command else None,
    ),
    LeftOut(
        "docs/evaluation.md",
        r"\.venv/bin/python evals/parity\.py --replay",
        "the file of a failure; tests/test_parity_replay.py replays one",
        options,
    ),
    LeftOut(
        "docs/howto/import.md",
        r"python scripts/export_e3nn\.py",
        "needs PyTorch",
        script,
    ),
    LeftOut(
        "docs/performance.md",
        r".*evals/run\.py --preset smoke",
        "tests/evals/test_run.py runs it",
        options,
    ),
    LeftOut(
        "docs/performance.md",
        r".*evals/run\.py --memory --memory-limit 8",
        "takes minutes and 8 GiB; tests/evals/test_memory.py runs a small one",
        options,
    ),
    LeftOut(
        "docs/performance.md",
        r".*evals/run\.py (--preset full|\$common|--memory --device gpu)",
        "needs PyTorch and e3nn, or an NVIDIA GPU",
        options,
    ),
    LeftOut(
        "docs/performance.md",
        r"common=",
        "options of what follows",
        lambda command: options(f"evals/run.py {shlex.split(command)[0].partition('=')[2]}"),
    ),
    LeftOut("docs/gpu-kernels.md", r"python evals/convolution_gpu\.py", "needs a GPU", options),
    LeftOut(
        "docs/gpu-kernels.md",
        r"MLPOT_CACHE_DIR=kernels python run\.py",
        "a program of the reader's, on a machine with an NVIDIA GPU",
        nothing,
    ),
    LeftOut("docs/howto/parallel.md", r"mlx\.launch .*nccl", "needs NVIDIA GPUs", options),
    LeftOut("docs/howto/parallel.md", r"mlx\.distributed_config", "needs two Macs", options),
)
