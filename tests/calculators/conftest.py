"""Fixtures for tests of the calculator."""

from __future__ import annotations

import pytest
from ase import Atoms
from small_potentials import make_crystal, make_potential

from mlpot.models import Potential


@pytest.fixture(scope="session")
def potential() -> Potential:
    return make_potential()


@pytest.fixture
def crystal() -> Atoms:
    return make_crystal()
