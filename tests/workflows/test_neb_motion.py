"""The band does not depend on where the last structure lies, and computes each image once."""

from __future__ import annotations

import io

import ase.io
import numpy as np
import pytest
from ase import Atoms
from ase.build import add_adsorbate, bulk, fcc100
from ase.calculators.emt import EMT
from ase.cluster import Octahedron
from ase.constraints import FixAtoms
from rich.console import Console

from mlpot import workflows
from mlpot.workflows.superposition import superpose

QUIET = Console(quiet=True)


class CountingEMT(EMT):
    """Counts what is computed."""

    calls = 0

    def calculate(self, *arguments, **options):
        self.calls += 1
        super().calculate(*arguments, **options)


def told(*arguments, **options) -> tuple:
    said = Console(record=True, width=200, file=io.StringIO())
    return workflows.neb(*arguments, console=said, **options), said.export_text()


def cluster_hop() -> tuple[Atoms, Atoms]:
    """A seventh atom goes from one face of an octahedron to the next."""
    core = Octahedron("Cu", 2)
    core.positions -= core.positions.mean(axis=0)
    corners = core.positions[np.argsort(core.positions @ [0.3, 0.2, 0.1])]
    top = corners[-1]
    side = [c for c in corners if 0.1 < np.linalg.norm(c - top) < 3.0]
    ends = []
    first = side[0]
    for second in sorted((c for c in side[1:] if np.linalg.norm(c - first) < 3.0), key=tuple):
        face = (top + first + second) / 3
        ends.append(core + Atoms("Cu", [2.6 * face]))
    return ends[0], ends[1]


@pytest.fixture(scope="module")
def on_the_cluster():
    first, last = (workflows.relax(end, EMT(), 1e-4, console=QUIET) for end in cluster_hop())
    superpose(last, first)
    options = {"images": 5, "relax_ends": False, "fmax": 0.03}
    return first, last, options, told(first, last, EMT(), **options)


@pytest.mark.parametrize("angle", [0, 60, 150])
def test_a_barrier_of_a_molecule_wherever_its_last_structure_lies(on_the_cluster, angle):
    first, last, options, (expected, text) = on_the_cluster
    assert expected.converged and expected.barrier > 0.05 and "as a whole" not in text
    moved = last.copy()
    moved.rotate(angle, (1, 2, 0.5))
    moved.translate([2.0, 0.0, 0.0])
    band, text = told(first, moved, EMT(), **options)
    assert band.converged
    np.testing.assert_allclose(band.energies, expected.energies, atol=1e-3)
    assert "shifted and turned, by up to" in text
    for one, next_one in zip(band.images[:-1], band.images[1:], strict=True):
        assert superpose(next_one.copy(), one) < 1e-6
    end = band.images[-1].copy()
    superpose(end, last)
    np.testing.assert_allclose(end.positions, last.positions, atol=1e-6)


def vacancy_hop() -> tuple[Atoms, Atoms]:
    crystal = bulk("Cu", a=3.6, cubic=True).repeat(2)
    neighbor = int(np.argmin(np.abs(crystal.get_distances(0, range(1, 32), mic=True) - 2.55))) + 1
    initial, final = crystal.copy(), crystal.copy()
    final.positions[neighbor] = crystal.positions[0]
    del initial[0], final[0]
    return initial, final


def test_a_hop_in_a_crystal_that_was_shifted_and_wrapped(tmp_path):
    first, last = vacancy_hop()
    options = {"images": 1, "fmax": 0.03}
    expected, _ = told(first, last, EMT(), **options)
    moved = last.copy()
    moved.positions += [3.4, 1.0, 3.7]  # about half the cell
    moved.wrap()
    band, text = told(first, moved, EMT(), out=tmp_path, plot=False, **options)
    assert expected.converged and expected.barrier > 0.3
    np.testing.assert_allclose(band.energies, expected.energies, atol=1e-3)
    np.testing.assert_allclose(band.distances, expected.distances, atol=1e-2)
    assert "The last structure was shifted by 5." in text
    written = ase.io.read(tmp_path / "neb-path.extxyz", ":")
    assert np.abs(written[-1].positions - written[0].positions).max() < 3.0


def adatom() -> tuple[Atoms, Atoms]:
    slab = fcc100("Al", size=(2, 2, 3))
    add_adsorbate(slab, "Au", 1.7, "hollow")
    slab.center(axis=2, vacuum=4.0)
    slab.set_constraint(FixAtoms(mask=[atom.tag > 1 for atom in slab]))
    last = slab.copy()
    last.positions[-1, 0] += last.cell[0, 0] / 2
    return slab, last


def test_fixed_atoms_stay_and_others_may_be_wrapped():
    first, last = adatom()
    options = {"images": 1, "fmax": 0.05}
    expected, _ = told(first, last, EMT(), **options)
    for atom, cells in ((0, [1, 0, 0]), (5, [0, -1, 0]), (-1, [1, 1, 0])):
        last.positions[atom] += cells @ last.cell.array
    band, text = told(first, last, EMT(), **options)
    assert "as a whole" not in text
    np.testing.assert_allclose(band.energies, expected.energies, atol=1e-3)
    fixed = first.constraints[0].get_indices()
    for image in band.images:
        np.testing.assert_allclose(image.positions[fixed], first.positions[fixed], atol=1e-9)


def test_each_image_is_computed_once_a_step(on_the_cluster):
    first, last = adatom()
    calc = CountingEMT()
    options = {"images": 3, "relax_ends": False, "fmax": 0.05, "console": QUIET}
    band = workflows.neb(first, last, calc, **options)
    assert band.converged and band.steps > 10
    ends = 4  # two energies before, two structures with forces at the end
    assert calc.calls == 3 * (band.steps + 1) + ends
    first, last, *_ = on_the_cluster
    calc = CountingEMT()
    band = workflows.neb(first, last, calc, **options)
    # The climb begins with another laying of the images upon each other.
    assert calc.calls <= 3 * (band.steps + 2) + ends


def test_the_picture_of_an_unfinished_band_says_so(tmp_path, monkeypatch):
    from matplotlib.axes import Axes

    titles: list[str] = []
    monkeypatch.setattr(Axes, "set_title", lambda self, text, *_, **__: titles.append(text))
    for name, steps in (("short", 1), ("long", 300)):
        options = {"images": 1, "fmax": 0.05, "relax_ends": False, "console": QUIET}
        band = workflows.neb(*adatom(), EMT(), steps=steps, out=tmp_path, name=name, **options)
        assert band.converged == (name == "long")
    assert all(title.endswith("eV, not converged") for title in titles[:2])
    assert all(title.endswith(" eV") for title in titles[2:]) and len(titles) == 4
