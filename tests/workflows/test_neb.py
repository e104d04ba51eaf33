"""The nudged elastic band: a known barrier, batches against single images, files, refusals."""

from __future__ import annotations

import json

import ase.io
import numpy as np
import pytest
from ase import Atoms
from ase.build import add_adsorbate, bulk, fcc100
from ase.calculators.emt import EMT
from ase.constraints import FixAtoms
from embedded_atoms import EmbeddedAtoms
from rich.console import Console

from mlpot import workflows
from mlpot.calculators import MLPotCalculator

QUIET = Console(quiet=True)


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


@pytest.fixture(scope="module")
def hop(calc, tmp_path_factory):
    out = tmp_path_factory.mktemp("neb")
    return workflows.neb(*vacancy_hop(), calc, images=3, out=out, console=QUIET), out


def test_a_hop_and_its_return_are_equal(hop):
    band, _ = hop
    assert band.converged and band.climbing
    assert 0.3 < band.barrier < 1.5
    assert band.barrier == pytest.approx(band.reverse_barrier, abs=1e-3)
    assert band.energies.argmax() == 2
    np.testing.assert_allclose(band.energies, band.energies[::-1], atol=5e-3)
    assert np.all(np.diff(band.distances) > 0)


def test_the_top_is_a_saddle_point(hop, calc):
    top = hop[0].images[2].copy()
    top.calc = calc
    assert np.linalg.norm(top.get_forces(), axis=1).max() < 0.03
    tangent = hop[0].images[3].positions - hop[0].images[1].positions
    tangent /= np.linalg.norm(tangent)
    assert np.vdot(tangent, calc.get_hvp(top, tangent)) < -0.1


def test_the_batch_equals_images_one_by_one(hop, calc):
    class Plain(EMT):
        """Any ASE calculator: asks the potential image by image."""

        def calculate(self, atoms=None, properties=(), system_changes=()):
            one = atoms.copy()
            one.calc = calc
            self.results = {"energy": one.get_potential_energy(), "forces": one.get_forces()}

    band = workflows.neb(*vacancy_hop(), Plain(), images=3, console=QUIET)
    np.testing.assert_allclose(band.energies, hop[0].energies, atol=1e-6)


def test_files(hop):
    band, out = hop
    images = ase.io.read(out / "neb-path.extxyz", ":")
    assert len(images) == 5
    assert images[2].get_potential_energy() == pytest.approx(band.energies[2], abs=1e-6)
    assert json.loads((out / "neb-neb.json").read_text())["barrier_eV"] == band.barrier
    assert (out / "neb-neb.png").stat().st_size > 10_000
    with pytest.raises(ValueError, match="exists already"):
        band.write(out)


def test_adatom_with_a_fixed_layer_in_emt():
    """Gold on Al(100) in EMT, the example of ASE's documentation: 0.374 eV."""
    ends = []
    for site in ("hollow", "hollow"):
        slab = fcc100("Al", size=(2, 2, 3))
        add_adsorbate(slab, "Au", 1.7, site)
        slab.center(axis=2, vacuum=4.0)
        slab.set_constraint(FixAtoms(mask=[atom.tag > 1 for atom in slab]))
        ends.append(slab)
    ends[1].positions[-1, 0] += ends[1].cell[0, 0] / 2
    band = workflows.neb(*ends, EMT(), images=3, fmax=0.05, console=QUIET)
    assert band.converged
    assert band.barrier == pytest.approx(0.374, abs=0.01)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"images": 0}, "images is 0"), ({"fmax": 0.0}, "fmax is 0"), ({"steps": 0}, "steps is 0")],
)
def test_bad_numbers(options, message):
    with pytest.raises(ValueError, match=message):
        workflows.neb(bulk("Cu"), bulk("Cu"), EMT(), console=QUIET, **options)


def test_ends_must_fit():
    with pytest.raises(ValueError, match="same atoms in the same order"):
        workflows.neb(bulk("Cu"), bulk("Al"), EMT(), console=QUIET)
    with pytest.raises(ValueError, match="different cells"):
        workflows.neb(bulk("Cu"), bulk("Cu", a=3.7), EMT(), console=QUIET)
