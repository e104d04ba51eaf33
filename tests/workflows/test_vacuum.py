"""What is said of slabs and boxes that pass for crystals, and of narrow supercells."""

from __future__ import annotations

import contextlib
import io

import numpy as np
import pytest
from ase.build import bulk, fcc111, molecule
from embedded_atoms import EmbeddedAtoms
from rich.console import Console

from mlpot import workflows
from mlpot.calculators import MLPotCalculator
from mlpot.workflows.vacuum import gaps, widths


@pytest.fixture
def calc():
    return MLPotCalculator(EmbeddedAtoms(cutoff=4.0), dtype="float64")


def said() -> Console:
    return Console(record=True, width=300, file=io.StringIO())


def test_gaps_and_widths():
    slab = fcc111("Cu", (1, 1, 3), a=3.6, vacuum=5.0, periodic=True)
    slab.positions[:, 2] += 7.0  # atoms on both sides of the boundary
    slab.wrap()
    assert gaps(slab)[2] == pytest.approx(10.0)
    skewed = bulk("Cu", a=3.6)
    assert widths(skewed) == pytest.approx(np.full(3, 3.6 / np.sqrt(3)))
    box = molecule("H2O", vacuum=4.0, pbc=True)
    assert gaps(box) == pytest.approx([8.0, 8.0, 8.0])


def test_slabs_are_told(calc):
    slab = fcc111("Cu", (1, 1, 2), a=3.6, vacuum=4.0, periodic=True)
    for run in (workflows.elastic, workflows.eos):
        console = said()
        with contextlib.suppress(ValueError):  # no minimum within the volumes, say
            run(slab, calc, relax=False, console=console)
        text = console.export_text()
        assert "Along c there are 8.0 Å of vacuum" in text and "Along a" not in text
    console = said()
    options = {"relax": False, "mesh": (2, 2, 1), "npoints": 3, "console": console}
    workflows.phonons(slab, calc, (2, 2, 1), **options)
    assert "vacuum" in console.export_text()


def test_narrow_supercells_are_told(calc):
    for repetitions, told in (((1, 1, 1), True), ((2, 2, 2), False)):
        console = said()
        options = {"relax": False, "mesh": (2, 2, 2), "npoints": 3, "console": console}
        workflows.phonons(bulk("Cu", a=3.6, cubic=True), calc, repetitions, **options)
        text = console.export_text()
        assert ("The supercell is 3.6 Å wide, less than forces reach (4 Å)" in text) == told
        assert "vacuum" not in text
