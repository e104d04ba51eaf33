"""Files of thermal properties say what is not in their sums."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from ase.build import bulk
from ase.calculators.emt import EMT
from rich.console import Console

from mlpot import workflows
from mlpot.units import AVOGADRO, BOLTZMANN_SI

QUIET = Console(quiet=True)


@pytest.mark.parametrize(("structure", "a", "stable"), [("bcc", 2.87, False), ("fcc", 3.6, True)])
def test_imaginary_modes_are_counted_in_the_files(structure, a, stable, tmp_path, monkeypatch):
    from matplotlib.axes import Axes

    titles: list[str] = []
    monkeypatch.setattr(Axes, "set_title", lambda self, text, *_, **__: titles.append(str(text)))
    result = workflows.phonons(
        bulk("Cu", structure, a=a), EMT(), (4, 4, 4), mesh=(4, 4, 4), npoints=11, out=tmp_path,
        console=QUIET,
    )  # fmt: skip
    with (tmp_path / "Cu-thermal.csv").open() as file:
        rows = list(csv.DictReader(file))
    shares = {float(row["imaginary_modes_left_out_%"]) for row in rows}
    mesh = result.phonopy.mesh
    others = np.linalg.norm(mesh.qpoints, axis=1) > 1e-9  # one atom: all modes at Gamma are rigid
    imaginary = (mesh.weights[:, None] * (mesh.frequencies < 0))[others].sum()
    expected = imaginary / (3 * mesh.weights.sum())
    assert (expected == 0) == stable
    assert list(shares) == [pytest.approx(100 * expected, abs=1e-3)]
    # Against the sums themselves: each mode that is counted has k at high temperatures.
    hot = result.thermal_properties(t_max=20000, t_step=20000)
    modes = hot.heat_capacity[-1] / (BOLTZMANN_SI * AVOGADRO)
    assert modes == pytest.approx(3 * (1 - hot.left_out) - 3 / mesh.weights.sum(), rel=1e-4)
    said = [title for title in titles if "left out" in title]
    assert len(said) == (0 if stable else 1)
    assert stable or f"{100 * expected:.3g} % of the modes are imaginary" in said[0]
