"""Every picture of the documentation is listed with the command that draws it."""

from __future__ import annotations

import posixpath
import re
import shlex

import left_out
import pytest
from documentation import ROOT, files
from verbs import parse

LIST = ROOT / "docs" / "pictures" / "README.md"
ROW = re.compile(r"^\| \[([^]]+)\]\(([^)]+)\) \| `([^`]+)`", re.M)
ROWS = ROW.findall(LIST.read_text())


def shown() -> set[str]:
    """Every picture that a page shows, from the root of the repository."""
    found = set()
    for page in files():
        folder = page.relative_to(ROOT).parent.as_posix()
        for target in re.findall(r"!\[[^]]*\]\(([^)]+)\)", page.read_text()):
            found.add(posixpath.normpath(posixpath.join(folder, target)))
    return found


def listed() -> dict[str, str]:
    """Command by picture."""
    return {posixpath.normpath(f"docs/pictures/{target}"): command for _, target, command in ROWS}


def test_every_picture_is_listed():
    assert shown() == set(listed())
    assert len(shown()) > 10
    committed = {f"docs/pictures/{path.name}" for path in LIST.parent.iterdir()}
    assert committed - {"docs/pictures/README.md"} <= set(listed())


@pytest.mark.parametrize(("picture", "command"), listed().items())
def test_its_command_exists(picture, command):
    assert (ROOT / picture).is_file()
    words = shlex.split(command)
    if words[0] == "mlpot":
        parse(words[1:])
    else:
        assert words[0] == "python"
        left_out.options(command)
