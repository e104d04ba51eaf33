"""Phonons that were stopped go on, and never with forces of something else."""

from __future__ import annotations

import numpy as np
import pytest
from ase.build import bulk
from embedded_atoms import EmbeddedAtoms
from rich.console import Console

from mlpot import workflows
from mlpot.calculators import MLPotCalculator
from mlpot.workflows import kept_forces
from mlpot.workflows.kept_forces import KeptForces


class Stops(MLPotCalculator):
    """Is interrupted after some forces."""

    left = 10**6

    def get_forces(self, atoms=None):
        if self.left == 0:
            raise KeyboardInterrupt
        self.left -= 1
        return super().get_forces(atoms)

    def get_hvps(self, atoms, vectors, chunk=None, progress=None):
        if self.left == 0:
            raise KeyboardInterrupt
        self.left -= 1
        return super().get_hvps(atoms, vectors, chunk, progress)


@pytest.mark.parametrize("method", ["hessian", "displacements"])
def test_goes_on_where_it_was_stopped(tmp_path, monkeypatch, method):
    monkeypatch.setattr(kept_forces, "INTERVAL", 0.0)
    monkeypatch.setattr("mlpot.workflows.force_constants._TOGETHER", 1)
    unit = bulk("Cu", "hcp", a=2.5, c=4.1)
    unit.rattle(0.05, seed=1)  # no symmetry: several displacements
    skew = np.array([[0.0, 0.1, 0.2], [0.1, 0.0, 0.15], [0.2, 0.15, 0.0]])
    unit.set_cell(unit.cell.array @ (np.eye(3) + skew), scale_atoms=True)
    settings = {"relax": False, "mesh": (3, 3, 3), "npoints": 5, "console": Console(quiet=True)}
    settings |= {"method": method, "name": "Cu", "plot": False}
    calc = Stops(EmbeddedAtoms(cutoff=4.0), dtype="float64")
    expected = workflows.phonons(unit, calc, (1, 1, 2), **settings)
    used = 10**6 - calc.left
    assert used > 1
    calc.left = 1
    with pytest.raises(KeyboardInterrupt):
        workflows.phonons(unit, calc, (1, 1, 2), out=tmp_path, **settings)
    assert (tmp_path / "Cu-forces.npz").exists()
    calc.left = used - 1  # not enough to begin anew
    found = workflows.phonons(unit, calc, (1, 1, 2), out=tmp_path, **settings)
    assert calc.left == 0
    assert not (tmp_path / "Cu-forces.npz").exists()
    q_points = [[0.5, 0, 0], [0.3, 0.1, 0.2]]
    np.testing.assert_allclose(
        found.frequencies(q_points), expected.frequencies(q_points), atol=1e-8
    )


def test_forces_of_something_else_are_not_taken(tmp_path, monkeypatch):
    monkeypatch.setattr(kept_forces, "INTERVAL", 0.0)
    calc = MLPotCalculator(EmbeddedAtoms(cutoff=4.0), dtype="float64")
    positions, moves = np.zeros((2, 3)), np.ones((3, 2, 3))
    path = tmp_path / "forces.npz"
    KeptForces(path, calc, positions, moves).add(np.full((1, 2, 3), 7.0))
    again = KeptForces(path, calc, positions + 1e-9, moves)
    np.testing.assert_array_equal(again.forces, np.full((1, 2, 3), 7.0))
    other = MLPotCalculator(EmbeddedAtoms(cutoff=4.0, softness=1.1), dtype="float64")
    assert len(KeptForces(path, other, positions, moves).forces) == 0
    assert len(KeptForces(path, calc, positions + 1e-3, moves).forces) == 0
    assert len(KeptForces(path, calc, positions, 2 * moves).forces) == 0
    path.write_bytes(b"PK damaged")
    assert len(KeptForces(path, calc, positions, moves).forces) == 0
