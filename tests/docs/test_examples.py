"""Examples in docstrings, which the reference shows, run."""

from __future__ import annotations

import doctest
import re
import shutil
from functools import partial

import page_files
import pytest
from ase.build import bulk
from documentation import ROOT

import mlpot
from mlpot import calculators, graph, models, testing

SOURCES = sorted((ROOT / "mlpot").rglob("*.py"))


def examples() -> dict[str, str]:
    """Code of each docstring's examples, by file and line."""
    found = {}
    for path in SOURCES:
        text = path.read_text()
        if ">>>" not in text:
            continue
        for block in re.findall(r"(?:^ *(?:>>>|\.\.\.) .*\n)+", text, re.M):
            line = text[: text.index(block)].count("\n") + 1
            code = "".join(one.source for one in doctest.DocTestParser().get_examples(block))
            found[f"{path.relative_to(ROOT)}:{line}"] = code
    return found


EXAMPLES = examples()


def test_there_are_examples():
    assert len(EXAMPLES) > 5


@pytest.mark.parametrize("place", EXAMPLES)
def test_example_runs(place, tmp_path, monkeypatch):
    shutil.copy(page_files.COPPER, tmp_path / "best.safetensors")
    monkeypatch.chdir(tmp_path)
    atoms = bulk("Cu", cubic=True)
    names = {
        name: getattr(module, name)
        for module in (calculators, graph, models, testing)
        for name in module.__all__
    }
    names |= {
        "atoms": atoms,
        "numbers": atoms.numbers,
        "positions": atoms.positions,
        "cell": atoms.cell.array,
        "pbc": atoms.pbc,
        "images": [atoms.copy(), atoms.copy()],
        "calculator": calculators.MLPotCalculator("best.safetensors"),
        "potential": mlpot.load("best.safetensors"),
        # All checks take long here, where annotations are checked at each call.
        "run_battery": partial(testing.run_battery, checks=["rotation"]),
    }  # fmt: skip
    exec(compile(EXAMPLES[place], place, "exec"), names)


def test_the_reference_shows_them_as_code():
    """The heading has to be "Examples": another one is an admonition with text to mkdocstrings."""
    for path in SOURCES:
        assert not re.search(r"^ *Example:$", path.read_text(), re.M), path
