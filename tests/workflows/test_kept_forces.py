"""Phonons that were stopped go on, and never with forces of something else."""

from __future__ import annotations

import importlib
import io

import numpy as np
import pytest
from ase import Atoms
from ase.build import add_adsorbate, bulk, fcc100
from ase.calculators.emt import EMT
from ase.constraints import FixAtoms
from embedded_atoms import EmbeddedAtoms
from rich.console import Console

from mlpot import workflows
from mlpot.calculators import MLPotCalculator, with_d3
from mlpot.workflows import kept_forces
from mlpot.workflows.force_constants import displaced_forces
from mlpot.workflows.kept_forces import KeptArrays, KeptForces, mark_of


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


def test_volumes_of_grueneisen_parameters_are_kept_too(tmp_path, monkeypatch):
    """Stopped in the second volume, it computes that one alone again."""
    monkeypatch.setattr(kept_forces, "INTERVAL", 1e9)  # written at the ends of volumes
    calc = Stops(EmbeddedAtoms(cutoff=4.0), dtype="float64")
    unit = bulk("Cu", a=3.6)
    settings = {"relax": False, "mesh": (3, 3, 3), "npoints": 5, "console": Console(quiet=True)}
    settings |= {"grueneisen": True, "name": "Cu", "plot": False}
    expected = workflows.phonons(unit, calc, (2, 2, 2), **settings)
    assert 10**6 - calc.left == 3  # one displacement in each of three volumes
    calc.left = 2
    with pytest.raises(KeyboardInterrupt):
        workflows.phonons(unit, calc, (2, 2, 2), out=tmp_path, **settings)
    kept = {path.name for path in tmp_path.glob("*.npz")}
    assert kept == {"Cu-forces.npz", "Cu-forces-1.01.npz"}
    calc.left = 1
    found = workflows.phonons(unit, calc, (2, 2, 2), out=tmp_path, **settings)
    assert calc.left == 0 and not list(tmp_path.glob("*.npz"))
    assert found.grueneisen.mean == pytest.approx(expected.grueneisen.mean, abs=1e-10)


def test_forces_of_something_else_are_not_taken(tmp_path, monkeypatch):
    monkeypatch.setattr(kept_forces, "INTERVAL", 0.0)
    calc = MLPotCalculator(EmbeddedAtoms(cutoff=4.0), dtype="float64")
    atoms, moves = bulk("CuAu", "rocksalt", a=5.0), np.ones((3, 2, 3))
    path = tmp_path / "forces.npz"
    KeptForces(path, calc, atoms, moves).add(np.full((1, 2, 3), 7.0))
    near, far, other_elements = atoms.copy(), atoms.copy(), atoms.copy()
    near.positions += 1e-9
    far.positions += 1e-3
    other_elements.numbers[0] = 47
    open_along_z = atoms.copy()
    open_along_z.pbc = (True, True, False)
    wider = atoms.copy()
    wider.set_cell(1.001 * atoms.cell.array)
    again = KeptForces(path, calc, near, moves)
    np.testing.assert_array_equal(again.forces, np.full((1, 2, 3), 7.0))
    other = MLPotCalculator(EmbeddedAtoms(cutoff=4.0, softness=1.1), dtype="float64")
    assert len(KeptForces(path, other, atoms, moves).forces) == 0
    for changed in (far, other_elements, open_along_z, wider):
        assert len(KeptForces(path, calc, changed, moves).forces) == 0
    assert len(KeptForces(path, calc, atoms, 2 * moves).forces) == 0
    for damaged in (b"PK damaged", b"", b"\x93NUMPY"):
        path.write_bytes(damaged)
        assert len(KeptForces(path, calc, atoms, moves).forces) == 0


class Foreign(EMT):
    """A calculator whose model is not among its parameters, as in other packages."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def calculate(self, *args, **kwargs):
        super().calculate(*args, **kwargs)
        self.results = {name: self.factor * np.array(x) for name, x in self.results.items()}


def test_forces_of_another_model_of_a_foreign_calculator_are_not_taken(tmp_path):
    cells = [bulk("Cu", cubic=True) for _ in range(3)]
    for place, cell in enumerate(cells):
        cell.rattle(0.05, seed=place)
    path, moves = tmp_path / "forces.npz", np.array([cell.positions for cell in cells])

    def forces(factor: float, cells: list[Atoms]) -> np.ndarray:
        calc = Foreign(factor)
        kept = KeptForces(path, calc, bulk("Cu", cubic=True), moves)
        return displaced_forces(calc, cells, lambda *_: None, kept)

    first = forces(1.0, cells[:2])
    np.testing.assert_array_equal(forces(1.0, cells)[:2], first)
    np.testing.assert_allclose(forces(1.1, cells)[:2], 1.1 * first, rtol=1e-12)


class StopsThirdOrder(MLPotCalculator):
    """Is interrupted after some products of third order."""

    left = 10**6

    def get_third_order(self, *args, **kwargs):
        if self.left == 0:
            raise KeyboardInterrupt
        self.left -= 1
        return super().get_third_order(*args, **kwargs)


def test_third_order_goes_on_where_it_was_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(kept_forces, "INTERVAL", 0.0)
    # The calculator without radial tables that the workflow makes is of the plain class.
    module = importlib.import_module("mlpot.workflows.anharmonic")  # its function hides it
    monkeypatch.setattr(module, "with_exact_radial", lambda calc: calc)
    calc = StopsThirdOrder(EmbeddedAtoms(cutoff=4.0), dtype="float64")
    unit = bulk("Cu", a=3.55)
    settings = {"relax": False, "console": Console(quiet=True), "chunk": 20}
    settings |= {"name": "Cu", "plot": False}
    expected = workflows.anharmonic(unit, calc, (3, 1, 1), **settings)
    used = 10**6 - calc.left
    assert used == 3  # one call for each direction of the one atom: nine columns each
    calc.left = 2
    with pytest.raises(KeyboardInterrupt):
        workflows.anharmonic(unit, calc, (3, 1, 1), out=tmp_path, **settings)
    assert (tmp_path / "Cu-third-order.npz").exists()
    calc.left = 1
    found = workflows.anharmonic(unit, calc, (3, 1, 1), out=tmp_path, **settings)
    assert calc.left == 0
    assert not (tmp_path / "Cu-third-order.npz").exists()
    np.testing.assert_allclose(found.fc3, expected.fc3, atol=1e-10)


def test_a_band_goes_on_where_it_was_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(kept_forces, "INTERVAL", 1e9)  # written when it is stopped
    initial = fcc100("Cu", (2, 2, 2), a=3.55, vacuum=6.0)
    final = initial.copy()
    add_adsorbate(initial, "Cu", 1.6, "hollow")
    add_adsorbate(final, "Cu", 1.6, "hollow", offset=(1, 0))
    for end in (initial, final):
        end.set_constraint(FixAtoms(range(8)))
    calc = MLPotCalculator(EmbeddedAtoms(cutoff=4.0), dtype="float64")
    said = Console(record=True, width=200, quiet=False, file=io.StringIO())
    settings = {"images": 3, "relax_ends": False, "fmax": 0.05, "name": "hop", "plot": False}
    expected = workflows.neb(initial, final, calc, console=Console(quiet=True), **settings)
    assert expected.converged and expected.steps > 4
    real, left = KeptArrays.keep, [expected.steps - 2]

    def stops(self, at_once=False, **arrays):
        real(self, at_once, **arrays)
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt

    monkeypatch.setattr(KeptArrays, "keep", stops)
    with pytest.raises(KeyboardInterrupt):
        workflows.neb(initial, final, calc, out=tmp_path, console=said, **settings)
    assert (tmp_path / "hop-band.npz").exists()
    monkeypatch.setattr(KeptArrays, "keep", real)
    found = workflows.neb(initial, final, calc, out=tmp_path, console=said, **settings)
    assert "Going on with the band after" in said.export_text()
    assert found.converged and found.climbing
    assert abs(found.barrier - expected.barrier) < 2e-3
    assert not (tmp_path / "hop-band.npz").exists()
    monkeypatch.setattr(kept_forces, "INTERVAL", 0.0)
    # Another number of images is another band.
    kept = KeptArrays(tmp_path / "other.npz", "one")
    kept.keep(positions=np.zeros(3))
    assert list(KeptArrays(tmp_path / "other.npz", "one").found) == ["positions"]
    assert not KeptArrays(tmp_path / "other.npz", "two").found


def test_a_sum_is_marked_by_its_parts():
    one = MLPotCalculator(EmbeddedAtoms(cutoff=4.0), dtype="float64")
    other = MLPotCalculator(EmbeddedAtoms(cutoff=4.0, softness=1.1), dtype="float64")
    at = [bulk("Cu")]
    marks = {mark_of(with_d3(calc, "pbe"), at) for calc in (one, one, other)}
    assert len(marks) == 2
    assert mark_of(with_d3(one, "pbe"), at) != mark_of(with_d3(one, "b3lyp"), at)
