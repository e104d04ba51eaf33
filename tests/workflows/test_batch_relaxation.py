"""Many structures relaxed at once, as each would be alone."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from ase.build import bulk
from ase.constraints import FixAtoms, FixCom
from embedded_atoms import EmbeddedAtoms
from sample_potentials import triclinic

from mlpot.calculators import MLPotCalculator
from mlpot.graph import HostPairs
from mlpot.workflows import relax, relax_batch


def metal():
    potential = EmbeddedAtoms(numbers=(13, 29), cutoff=4.0, E0s={29: -100.0, 13: -50.0})
    potential.set_dtype(mx.float64)
    return potential


def various() -> list:
    """A crystal, a slab, a cluster that is fixed in part, a triclinic cell, one at rest."""
    crystal = bulk("Cu", a=3.6, cubic=True)
    crystal.rattle(0.12, seed=1)
    slab = bulk("Cu", a=3.6, cubic=True)
    slab.pbc = [True, True, False]
    slab.rattle(0.08, seed=2)
    cluster = bulk("Cu", a=3.6, cubic=True).repeat((2, 1, 1))
    cluster.pbc = False
    cluster.rattle(0.1, seed=3)
    cluster.set_constraint(FixAtoms([0, 3]))
    rest = bulk("Cu", a=3.6, cubic=True)
    return [crystal, slab, rest, cluster, triclinic()]


def test_each_as_alone():
    structures = various()
    before = [atoms.copy() for atoms in structures]
    found = relax_batch(structures, metal(), fmax=1e-4, steps=3000)
    steps = [report.steps for _, report in found]
    assert len(set(steps)) > 2 and steps[2] == 0  # they drop out one after the other
    calculator = MLPotCalculator(metal(), dtype="float64")
    for atoms, old, (relaxed, report) in zip(structures, before, found, strict=True):
        assert report.converged and report.fmax <= 1e-4
        np.testing.assert_array_equal(atoms.positions, old.positions)
        alone = relax_batch([atoms], metal(), fmax=1e-4, steps=3000)[0][0]
        np.testing.assert_allclose(relaxed.positions, alone.positions, atol=1e-6)
        check = relaxed.copy()
        check.calc = calculator
        assert np.linalg.norm(check.get_forces(), axis=1).max() <= 1.01e-4
        assert report.energy == pytest.approx(check.get_potential_energy(), abs=1e-8)
        assert relaxed.get_potential_energy() == pytest.approx(report.energy)
    fixed = found[3][0]
    np.testing.assert_allclose(fixed.positions[[0, 3]], before[3].positions[[0, 3]], atol=1e-12)
    # The crystal has one minimum nearby, which BFGS finds as well.
    expected = relax(before[0], calculator, fmax=1e-4)
    assert found[0][1].energy == pytest.approx(expected.get_potential_energy(), abs=1e-6)


def test_steps_run_out_and_refusals():
    structures = various()[:2]
    found = relax_batch(structures, MLPotCalculator(metal(), dtype="float64"), steps=5)
    assert [report.converged for _, report in found] == [False, False]
    assert [report.steps for _, report in found] == [5, 5]
    with pytest.raises(ValueError, match="no structures"):
        relax_batch([], metal())
    with pytest.raises(ValueError, match="fmax is -1"):
        relax_batch(structures, metal(), fmax=-1)
    with pytest.raises(ValueError, match=r"structure 2: .*does not know Fe"):
        relax_batch([*structures, bulk("Fe")], metal())
    with pytest.raises(ValueError, match="committee of 2"):
        relax_batch(structures, MLPotCalculator([metal(), metal()], dtype="float64"))
    structures[1].set_constraint(FixCom())
    with pytest.raises(ValueError, match=r"structure 1: .*FixAtoms only, not FixCom"):
        relax_batch(structures, metal())
    structures[1].set_constraint(FixAtoms(range(4)))
    with pytest.raises(ValueError, match="structure 1: all of its atoms are fixed"):
        relax_batch(structures, metal())


def test_errors_name_the_structure_and_its_own_atoms():
    for change, said in (
        ("twice", r"structure 2: atoms [12] and [12] are at the same place"),
        ("nan", r"structure 2: position of atom 1 is not finite"),
        ("flat", r"structure 2: .*lattice vector"),
        ("none", r"structure 2: it has no atoms"),
    ):
        structures = various()
        if change == "twice":
            structures[2].positions[2] = structures[2].positions[1]
        elif change == "nan":
            structures[2].positions[1, 0] = np.nan
        elif change == "flat":
            structures[2].cell[2] = 0.0
        else:
            del structures[2][:]
        with pytest.raises(ValueError, match=said):
            relax_batch(structures, metal())


def test_a_structure_that_is_lost_on_the_way_keeps_its_number(monkeypatch):
    """The first two have dropped out of the batch by then."""
    structures = [bulk("Cu", a=3.6, cubic=True) for _ in range(4)]
    structures[2].rattle(0.1, seed=1)
    structures[3].rattle(0.1, seed=2)
    build, positions = HostPairs.build, []

    def broken(self, xyz, cells):
        positions.append(np.array(xyz))
        if len(xyz) == 8 and len(positions) > 2:
            xyz = mx.array(np.array(xyz))
            xyz[5] = np.nan
        return build(self, xyz, cells)

    monkeypatch.setattr(HostPairs, "build", broken)
    with pytest.raises(ValueError, match="structure 3: position of atom 1 is not finite"):
        relax_batch(structures, metal(), fmax=1e-6)
    assert len(positions) > 2
