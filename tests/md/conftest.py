"""Copper with EMT: a crystal that costs nothing."""

from __future__ import annotations

import pytest
from ase.build import bulk
from ase.calculators.emt import EMT


@pytest.fixture
def copper():
    atoms = bulk("Cu", cubic=True)
    atoms.calc = EMT()
    return atoms
