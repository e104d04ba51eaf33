"""Equation of state."""

from __future__ import annotations

import json

import numpy as np
import pytest
from ase.build import bulk
from ase.calculators.emt import EMT
from ase.eos import EquationOfState as AseEquationOfState
from rich.console import Console

from mlpot import workflows
from mlpot.units import GPA
from mlpot.workflows.eos import birch_murnaghan, fit

QUIET = Console(quiet=True)


def test_a_known_curve_is_found_again():
    volumes = np.linspace(10.5, 13.0, 8)
    b0 = 140 * GPA
    result = fit(volumes, birch_murnaghan(volumes, -3.5, 11.8, b0, 5.2), bulk("Cu"))
    assert result.volume == pytest.approx(11.8, rel=1e-9)
    assert result.energy == pytest.approx(-3.5, abs=1e-10)
    assert result.bulk_modulus == pytest.approx(140, rel=1e-7)
    assert result.derivative == pytest.approx(5.2, rel=1e-5)
    assert result.residual < 1e-10


def test_agrees_with_ase(tmp_path):
    result = workflows.eos(bulk("Cu", a=3.6), EMT(), out=tmp_path, console=QUIET)
    theirs = AseEquationOfState(result.volumes, result.energies, eos="birchmurnaghan")
    v0, e0, b0 = theirs.fit()
    assert result.volume == pytest.approx(v0, rel=1e-4)
    assert result.energy == pytest.approx(e0, abs=1e-4)
    assert result.bulk_modulus == pytest.approx(b0 / GPA, rel=1e-2)
    data = json.loads((tmp_path / "Cu-eos.json").read_text())
    assert data["V0_angstrom3"] == result.volume
    assert (tmp_path / "Cu-eos.png").stat().st_size > 10_000
    assert "B0 =" in str(result)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"span": 0.0}, "span is 0.0"),
        ({"points": 4}, "points is 4"),
        ({"span": 0.01}, "no minimum between"),
    ],
)
def test_bad_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        workflows.eos(bulk("Cu", a=3.8), EMT(), console=QUIET, **options)


def test_molecules_are_refused():
    cluster = bulk("Cu")
    cluster.pbc = False
    with pytest.raises(ValueError, match="periodic in three directions"):
        workflows.eos(cluster, EMT(), console=QUIET)
