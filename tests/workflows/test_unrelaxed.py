"""Results that rest on relaxations which did not end say so."""

from __future__ import annotations

import io
import json

import pytest
from ase.build import bulk
from ase.calculators.emt import EMT
from embedded_atoms import EmbeddedAtoms
from rich.console import Console

from mlpot import workflows
from mlpot.calculators import MLPotCalculator


@pytest.fixture(scope="module")
def calc() -> MLPotCalculator:
    return MLPotCalculator(EmbeddedAtoms(cutoff=4.0), dtype="float64")


def hexagonal():
    """Two atoms whose places no symmetry fixes."""
    atoms = bulk("Cu", "hcp", a=2.5, c=4.1)
    atoms.positions[1] += [0.02, 0.01, 0.02]
    return atoms


def told(function, *arguments, **options) -> tuple:
    said = Console(record=True, width=400, file=io.StringIO())
    return function(*arguments, console=said, **options), said.export_text()


def test_strained_cells(calc, tmp_path):
    options = {"relax": False, "method": "strains", "name": "Cu", "plot": False}
    found, text = told(
        workflows.elastic, hexagonal(), calc, steps=1, fmax=1e-6, out=tmp_path / "one", **options
    )
    assert found.unrelaxed == 12 and "atoms of 12 strained cells did not reach fmax" in text
    assert json.loads((tmp_path / "one/Cu-elastic.json").read_text())["unrelaxed"] == 12
    found, text = told(workflows.elastic, bulk("Cu", a=3.5), calc, **options)
    assert found.unrelaxed == 0 and "NOT CONVERGED" not in text


def test_volumes(tmp_path):
    options = {"points": 5, "span": 0.1, "plot": False, "name": "Cu"}
    found, text = told(
        workflows.eos, hexagonal(), EMT(), steps=1, fmax=1e-6, out=tmp_path, **options
    )
    assert found.unrelaxed == 5 and "atoms of 5 of 5 volumes did not reach fmax" in text
    assert "--steps" in text
    assert json.loads((tmp_path / "Cu-eos.json").read_text())["unrelaxed"] == 5
    found, text = told(workflows.eos, bulk("Cu", a=3.6), EMT(), **options)
    assert found.unrelaxed == 0 and "NOT CONVERGED" not in text
