"""docs/e3nn.md: no name of e3nn is missing, and every name it gives here exists."""

from __future__ import annotations

import functools
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent
NAMES = (ROOT / "fixtures" / "e3nn_names.txt").read_text().split()
GUIDE = ROOT.parent / "docs" / "e3nn.md"
ROW = re.compile(r"^\| `([\w.]+)` \| (?:`mlpot\.([\w.]+)`|none) \| (.*) \|$", re.MULTILINE)
ROWS = ROW.findall(GUIDE.read_text())


def test_every_name_of_e3nn_has_one_row():
    assert sorted(name for name, _, _ in ROWS) == NAMES


def test_what_has_no_counterpart_has_a_reason():
    assert [name for name, ours, remark in ROWS if not ours and not remark] == []


@pytest.mark.parametrize("name", sorted({ours for _, ours, _ in ROWS if ours}))
def test_name_exists(name):
    namespace, *path = name.split(".")
    module = importlib.import_module(f"mlpot.{namespace}")
    # The first attribute that is missing raises AttributeError.
    found = functools.reduce(getattr, path, module)
    assert found is not None
