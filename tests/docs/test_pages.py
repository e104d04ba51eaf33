"""Every page with commands, Python or configurations is followed from its beginning to its end.

A page has a process of its own: the checks of annotations that tests have would make its steps
slow, and it finds the folder as a reader does. What cannot run here is named in `left_out`.
"""

from __future__ import annotations

import os
import subprocess
import sys

import left_out
import page_files
import page_follower
import pytest
from documentation import ROOT, Block, blocks

BLOCKS = blocks(indented=True)
PAGES = sorted({block.file for block in BLOCKS})
#: Pages that compile kernels for GPUs, which needs what the emulator's tests need.
EMULATED = ("docs/gpu-kernels.md",)


def run(*words: str, folder) -> subprocess.CompletedProcess:
    """The follower in a process of its own."""
    return subprocess.run(
        [sys.executable, str(ROOT / "tests" / "support" / "page_follower.py"), *words, str(folder)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        env=os.environ | {"TMPDIR": str(folder), "COLUMNS": "100", "OPENBLAS_NUM_THREADS": "1"},
    )


@pytest.mark.parametrize(
    "page",
    [pytest.param(p, marks=pytest.mark.emulated if p in EMULATED else ()) for p in PAGES],
)
def test_page_is_followed(page, tmp_path):
    ended = run(page, folder=tmp_path)
    assert ended.returncode == 0, ended.stdout[-5000:]
    found = [block for block in BLOCKS if block.file == page]
    assert ended.stdout.count("\n== ") == len(found)


def test_a_command_that_fails_is_noticed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AssertionError, match=r"mlpot info nothing\.h5: exit code 1"):
        page_follower.mlpot("info", "nothing.h5")
    with pytest.raises(AssertionError, match="exit code 2"):
        page_follower.mlpot("info", "--nothing")


def test_commands_are_found():
    block = Block(
        "a.md", 1, "bash", "# first\nmlpot md a \\\n    --steps 10000  # long\n$ ls\n", ""
    )
    found = page_follower.commands(block)
    assert found == ["mlpot md a --steps 10000", "ls"]
    assert page_follower.smaller(found[0]) == "mlpot md a --steps 20"
    assert len(PAGES) > 25
    assert sum(block.language == "indented" for block in BLOCKS) > 3
    assert sum(block.language == "bash" for block in BLOCKS) > 40


def test_only_sizes_of_configurations_are_reduced():
    keys = {"train_file": "a.h5", "r_max": 5.0, "lr": 0.1, "patience": 7, "max_num_epochs": 99}
    small = page_files.smaller_training(keys)
    assert small.items() >= {"train_file": "a.h5", "lr": 0.1, "patience": 7}.items()
    assert small["max_num_epochs"] == 2
    dynamics = page_files.smaller_md({"timestep": 2.0, "stages": [{"steps": 9999, "tau": 0.5}]})
    assert dynamics == {"timestep": 2.0, "stages": [{"steps": 20, "tau": 0.5}]}


def test_nothing_is_left_out_without_a_command():
    shown = [
        (block.file, command)
        for block in BLOCKS
        if block.language in ("bash", "indented")
        for command in page_follower.commands(block)
    ]
    used = {id(left_out.left_out(*one)) for one in shown}
    assert used >= {id(entry) for entry in left_out.LEFT_OUT}
    assert all(entry.reason for entry in left_out.LEFT_OUT)
    # Most commands run.
    assert sum(left_out.left_out(*one) is None for one in shown) > 0.6 * len(shown)


@pytest.mark.parametrize(
    ("check", "command"),
    [
        (left_out.options, "python evals/run.py --no-such-option"),
        (left_out.options, "mlx.launch -n 2 --no-such-option -- mlpot train --anything"),
        (left_out.extras, 'pip install ".[nothing]"'),
        (left_out.script, "./scripts/nothing"),
    ],
)
def test_what_is_left_out_is_still_checked(check, command):
    with pytest.raises(AssertionError):
        check(command)
