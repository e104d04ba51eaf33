"""Saddle points from one structure: barriers of a band, analytic ones, files, refusals."""

from __future__ import annotations

import importlib
import io
import json
import zlib

import ase.io
import numpy as np
import pytest
from ase import Atoms
from ase.build import add_adsorbate, bulk, fcc100
from ase.calculators.calculator import Calculator, all_changes
from ase.calculators.emt import EMT
from ase.constraints import FixAtoms, FixBondLength
from embedded_atoms import EmbeddedAtoms
from rich.console import Console

from mlpot import workflows
from mlpot.calculators import MLPotCalculator
from mlpot.workflows.saddle_search import Search, Surface, descend, lowest_beside, lowest_mode

QUIET = Console(quiet=True)


class DoubleWell(Calculator):
    """Two atoms: E = h (1 - (d - c)^2 / w^2)^2 in their distance d; the top is at c, h high."""

    implemented_properties = ["energy", "forces"]
    height, width, centre = 0.7, 0.4, 2.0

    def calculate(self, atoms=None, properties=("energy",), system_changes=tuple(all_changes)):
        super().calculate(atoms, properties, system_changes)
        arm = self.atoms.positions[1] - self.atoms.positions[0]
        distance = np.linalg.norm(arm)
        u = (distance - self.centre) / self.width
        slope = -4 * self.height * u * (1 - u * u) / self.width
        forces = np.array([arm, -arm]) * slope / distance
        self.results = {"energy": self.height * (1 - u * u) ** 2, "forces": forces}


def vacancy_hop() -> tuple[Atoms, Atoms]:
    """An atom of a copper crystal hops into a neighbouring vacancy."""
    crystal = bulk("Cu", a=3.55, cubic=True).repeat(2)
    neighbor = int(np.argmin(np.abs(crystal.get_distances(0, range(1, 32), mic=True) - 2.51))) + 1
    initial, final = crystal.copy(), crystal.copy()
    final.positions[neighbor] = crystal.positions[0]
    del initial[0], final[0]
    return initial, final


@pytest.fixture(scope="module")
def calc() -> MLPotCalculator:
    return MLPotCalculator(EmbeddedAtoms(cutoff=5.0), dtype="float64")


def adatom_hop() -> tuple[Atoms, Atoms]:
    """A copper atom on Cu(100) and the same in the next hollow; two layers of three are fixed."""
    initial = fcc100("Cu", size=(2, 2, 3), a=3.55)
    add_adsorbate(initial, "Cu", 1.7, "hollow")
    initial.center(axis=2, vacuum=5.0)
    initial.set_constraint(FixAtoms(mask=[atom.tag > 1 for atom in initial]))
    final = initial.copy()
    final.positions[-1, 0] += final.cell[0, 0] / 2
    return initial, final


@pytest.fixture(scope="module")
def hop(calc, tmp_path_factory):
    out = tmp_path_factory.mktemp("saddle")
    initial, final = adatom_hop()
    found = workflows.saddle(
        initial, calc, towards=final, fmax=1e-4, out=out, name="hop", console=QUIET
    )
    return found, out, initial, final


class NoisyDoubleWell(DoubleWell):
    """Energies are off by up to 0.5 meV, as those of large systems in float32; forces are right."""

    def calculate(self, atoms=None, properties=("energy",), system_changes=tuple(all_changes)):
        super().calculate(atoms, properties, system_changes)
        self.results["energy"] += 1e-3 * (zlib.crc32(self.atoms.positions.tobytes()) / 2**32 - 0.5)


def test_noise_of_energies_does_not_stop_a_search():
    atoms = Atoms("Ar2", [[0, 0, 0], [0, 0, 1.65]])
    atoms.calc = NoisyDoubleWell()
    search = Search(Surface(atoms, False), None, 0.1, 0)
    reached = []
    for _ in range(20):  # some of them after the end
        search.step()
        forces = search.surface.project(-atoms.get_forces())
        np.testing.assert_array_equal(search.point.gradient, forces)
        reached.append((search.point.fmax, atoms.get_distance(0, 1)))
    fmax, distance = min(reached)
    assert fmax < 1e-3
    assert abs(distance - NoisyDoubleWell.centre) < 1e-4


def test_minima_that_are_elsewhere_or_not_reached_are_told(monkeypatch, tmp_path):
    module = importlib.import_module("mlpot.workflows.saddle")  # its function hides it
    atoms = Atoms("Ar2", [[0, 0, 0], [0, 0, 1.66]])
    said = Console(record=True, width=200, file=io.StringIO())
    monkeypatch.setattr(module, "_ELSEWHERE", 0.01)
    found = workflows.saddle(atoms, DoubleWell(), console=said)
    assert found.unrelaxed == 0 and "NOT RELAXED" not in str(found)
    assert "the nearer one is 0.03 Å away" in said.export_text()  # 0.06 Å, half by each atom
    whole = module.relax_and_report

    def short(atoms, calc, fmax, cell, steps, symmetry, console):
        return whole(atoms, calc, fmax, cell, 1, symmetry, console)

    monkeypatch.setattr(module, "relax_and_report", short)
    found = workflows.saddle(atoms, DoubleWell(), console=QUIET, out=tmp_path)
    assert found.unrelaxed == 2 and "(2 of the minima NOT RELAXED)" in str(found)
    assert json.loads((tmp_path / "saddle-saddle.json").read_text())["unrelaxed_minima"] == 2


@pytest.mark.parametrize("distance", [1.75, 2.3])
def test_the_top_of_a_double_well(distance):
    atoms = Atoms("Cu2", [[0, 0, 0], [0.6 * distance, 0, 0.8 * distance]])
    found = workflows.saddle(atoms, DoubleWell(), fmax=1e-5, console=QUIET)
    assert found.converged and found.first_order and found.method == "displacements"
    assert found.energy == pytest.approx(0.7, abs=1e-8)
    assert found.atoms.get_distance(0, 1) == pytest.approx(2.0, abs=1e-4)
    # d2E/dd2 = -4 h / w^2 at the top; the mode moves two atoms against each other.
    assert found.curvature == pytest.approx(2 * -4 * 0.7 / 0.16, rel=1e-3)
    assert found.barriers == pytest.approx((0.7, 0.7), abs=1e-4)
    lengths = [end.get_distance(0, 1) for end in found.sides]
    assert sorted(lengths) == pytest.approx([1.6, 2.4], abs=5e-3)
    assert abs(lengths[0] - distance) < abs(lengths[1] - distance)


def test_the_barrier_is_that_of_a_band(hop, calc):
    found, _, initial, final = hop
    band = workflows.neb(initial, final, calc, images=3, fmax=0.01, console=QUIET)
    assert found.converged and found.first_order and found.method == "hessian"
    assert found.barriers[0] == pytest.approx(band.barrier, abs=1e-3)
    assert found.barriers[0] == pytest.approx(found.barriers[1], abs=1e-4)
    assert found.curvature < -0.1 < found.second_curvature
    assert found.fmax < 1e-4


def test_the_mode_is_an_eigenvector(hop, calc):
    found = hop[0]
    free = [3 * i + axis for i in (8, 9, 10, 11, 12) for axis in range(3)]
    hessian = calc.get_hessian(found.atoms)[np.ix_(free, free)]
    values, vectors = np.linalg.eigh(0.5 * (hessian + hessian.T))
    assert np.sum(values < 0) == 1
    assert found.curvature == pytest.approx(values[0], rel=1e-2)
    assert abs(vectors[:, 0] @ found.mode.ravel()[free]) > 0.99
    assert found.second_curvature == pytest.approx(values[1], rel=1e-2)


def test_a_symmetric_start_does_not_end_at_a_saddle_of_second_order(calc):
    """Halfway between two vacancies of this potential two modes are unstable, by symmetry."""
    initial, final = vacancy_hop()
    ridge = workflows.neb(initial, final, calc, images=3, fmax=0.01, console=QUIET).barrier
    found = workflows.saddle(initial, calc, towards=final, fmax=1e-3, connect=False, console=QUIET)
    assert found.converged and found.first_order
    start = workflows.relax(initial, calc, console=QUIET).get_potential_energy()
    assert 0.1 < found.energy - start < ridge - 1e-3


def test_the_input_is_not_changed(hop):
    np.testing.assert_array_equal(hop[2].positions, adatom_hop()[0].positions)
    assert hop[2].calc is None


def test_files(hop):
    found, out = hop[:2]
    names = ["json", "minima.extxyz", "mode.extxyz", "saddle.extxyz"]
    names = [f"hop-{n}" if "." in n else f"hop-saddle.{n}" for n in [*names, "png", "svg"]]
    assert sorted(p.name for p in out.iterdir()) == sorted(names)
    data = json.loads((out / "hop-saddle.json").read_text())
    assert data["barriers_eV"] == pytest.approx(list(found.barriers))
    top = ase.io.read(out / "hop-saddle.extxyz")
    assert top.get_potential_energy() == pytest.approx(found.energy)
    assert len(ase.io.read(out / "hop-minima.extxyz", ":")) == 2
    with pytest.raises(ValueError, match="exists already"):
        found.write(out, "hop")


def test_other_calculators_and_fixed_atoms():
    """The hop of a gold atom on Al(100) of ASE's tutorials: 0.374 eV by its band."""
    slab = fcc100("Al", size=(2, 2, 3))
    add_adsorbate(slab, "Au", 1.7, "hollow")
    slab.center(axis=2, vacuum=4.0)
    slab.set_constraint(FixAtoms(mask=[atom.tag > 1 for atom in slab]))
    before = slab.positions.copy()
    way = np.zeros((len(slab), 3))
    way[-1, 0] = 1.0
    found = workflows.saddle(slab, EMT(), way, fmax=0.01, console=QUIET)
    assert found.converged and found.first_order
    assert found.barriers[0] == pytest.approx(0.374, abs=0.01)
    fixed = slab.constraints[0].get_indices()
    np.testing.assert_array_equal(found.atoms.positions[fixed], before[fixed])
    assert np.all(found.mode[fixed] == 0)


def test_lowest_mode_and_descent_of_a_matrix():
    rng = np.random.default_rng(0)
    basis, _ = np.linalg.qr(rng.normal(size=(30, 30)))
    values = np.linspace(-2.0, 9.0, 30)
    matrix = (basis * values) @ basis.T
    value, vector, residual = lowest_mode(lambda v: matrix @ v, rng.normal(size=30), 1e-8, 30)
    assert value == pytest.approx(-2.0, abs=1e-8) and residual < 1e-6
    assert abs(vector @ basis[:, 0]) == pytest.approx(1.0, abs=1e-6)
    positive = matrix + 3.0 * np.eye(30)
    gradient = rng.normal(size=30)
    newton = -np.linalg.solve(positive, gradient)
    step = descend(lambda v: positive @ v, gradient, 1e3, 1e-10)
    np.testing.assert_allclose(step, newton, atol=1e-7)
    short = descend(lambda v: positive @ v, gradient, 0.1, 1e-10)
    assert np.linalg.norm(short) == pytest.approx(0.1)
    assert gradient @ short < 0
    assert np.linalg.norm(descend(lambda v: matrix @ v, gradient, 0.1, 1e-10)) <= 0.1 + 1e-12


@pytest.mark.parametrize(("second", "n"), [(-0.3, 93), (-0.05, 300), (0.4, 300)])
def test_curvature_beside_the_mode_of_a_matrix(second, n):
    """What is projected out, three shifts and the mode, does not come back by rounding."""
    rng = np.random.default_rng(n)
    shifts = np.tile(np.eye(3), (n // 3, 1))
    basis, _ = np.linalg.qr(np.concatenate([shifts, rng.normal(size=(n, n - 3))], axis=1))
    values = np.concatenate([[0, 0, 0, -1.0, second], rng.uniform(0.6, 20, n - 5)])
    matrix, rigid = (basis * values) @ basis.T, basis[:, :3].T
    value, vector = lowest_beside(
        lambda v: v - rigid.T @ (rigid @ v), lambda v: matrix @ v, basis[:, 3], 1
    )
    assert value == pytest.approx(second, abs=2e-3)
    assert abs(vector @ basis[:, 4]) > 0.99


def test_what_was_reached_is_told(calc):
    initial, final = vacancy_hop()
    found = workflows.saddle(initial, calc, towards=final, steps=1, connect=False, console=QUIET)
    assert not found.converged and str(found).startswith("NO saddle point")
    assert found.sides is None and found.barriers is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fmax": 0.0}, "fmax is 0.0"),
        ({"steps": 0}, "steps is 0"),
        ({"max_step": -1.0}, "max_step is -1.0"),
        ({"direction": np.ones((2, 3))}, r"direction has shape \(2, 3\)"),
        ({"direction": np.zeros((31, 3))}, "the direction is zero"),
        ({"direction": np.ones((31, 3))}, "moves nothing but"),
        ({"towards": bulk("Cu")}, "the same atoms"),
        ({"method": "dimer"}, "method is 'dimer'"),
    ],
)
def test_refusals(calc, change, message):
    with pytest.raises(ValueError, match=message):
        workflows.saddle(vacancy_hop()[0], calc, console=QUIET, **change)


def test_constraints_that_cannot_be_kept(calc):
    atoms = vacancy_hop()[0]
    atoms.set_constraint(FixBondLength(0, 1))
    with pytest.raises(ValueError, match="FixBondLength"):
        workflows.saddle(atoms, calc, console=QUIET)
    atoms.set_constraint(FixAtoms(range(31)))
    with pytest.raises(ValueError, match="all atoms are fixed"):
        workflows.saddle(atoms, calc, console=QUIET)


def test_what_the_start_is_is_told(calc, hop):
    initial, final = vacancy_hop()
    at_rest = workflows.relax(initial, calc, fmax=1e-3, console=QUIET)
    shaken = at_rest.copy()
    shaken.rattle(0.02, seed=1)
    band = workflows.neb(initial, final, calc, images=1, fmax=0.05, console=QUIET)
    for start, words in (
        (at_rest, "eV/Å²: a minimum"),
        (shaken, "no minimum, but above one"),
        (hop[0].atoms, "no minimum: the energy curves down along one direction."),
        (band.images[1], "no minimum: the energy curves down along two directions or more"),
    ):
        said = Console(record=True, width=300, file=io.StringIO())
        workflows.saddle(start, calc, steps=1, connect=False, fmax=0.01, console=said)
        text = said.export_text()
        assert "Start: largest force" in text and words in text
