"""Structures laid upon each other: molecules turned, crystals shifted across their boundaries."""

from __future__ import annotations

import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk, fcc111, molecule

from mlpot.workflows.superposition import superpose


@pytest.mark.parametrize("angle", [0, 40, 170])
def test_a_molecule_is_shifted_and_turned_back(angle):
    target = molecule("CH3CH2OH")
    moved = target.copy()
    moved.rotate(angle, (1, 2, 0.5))
    moved.translate([2.0, -1.0, 0.5])
    far = np.linalg.norm(moved.positions - target.positions, axis=1).max()
    assert superpose(moved, target) == pytest.approx(far)
    np.testing.assert_allclose(moved.positions, target.positions, atol=1e-12)


def test_a_mirror_image_stays_another_molecule():
    target = molecule("CH3CH2OH")
    target.rattle(0.2, seed=1)
    mirrored = target.copy()
    mirrored.positions[:, 2] *= -1
    superpose(mirrored, target)
    assert np.abs(mirrored.positions - target.positions).max() > 0.1


def test_one_atom():
    atom = Atoms("He", positions=[[1.0, 2.0, 3.0]])
    assert superpose(atom, Atoms("He")) == pytest.approx(np.sqrt(14))
    np.testing.assert_array_equal(atom.positions, 0)


@pytest.mark.parametrize("part", [0.02, 0.3, 0.5, 0.77])
@pytest.mark.parametrize("primitive", [False, True])
def test_a_crystal_is_shifted_back_across_its_boundaries(part, primitive):
    """Half a cell, too, where shortest vectors point both forwards and backwards."""
    target = bulk("Cu", a=3.6, cubic=not primitive).repeat(3)
    target.rattle(0.05, seed=1)
    moved = target.copy()
    moved.positions += part * moved.cell.sum(axis=0)
    moved.wrap()
    moved.positions[4] += [0.9, 0.0, 0.0]
    superpose(moved, target)
    # All atoms but the one that moved against the others are shifted by its share.
    expected = np.full((len(target), 3), [-0.9 / len(target), 0, 0])
    expected[4, 0] += 0.9
    np.testing.assert_allclose(moved.positions - target.positions, expected, atol=1e-10)


def test_the_way_of_an_atom_by_half_a_cell_is_kept():
    target = Atoms("Cu4", np.diag([1.0, 2.0, 3.0, 4.0])[:, :3], cell=[8.0, 8.0, 8.0], pbc=True)
    for way in (3.99, -3.99):
        moved = target.copy()
        moved.positions[0, 0] += way
        superpose(moved, target)
        np.testing.assert_allclose(moved.positions[0, 0] - target.positions[0, 0], 0.75 * way)


def test_a_slab_is_shifted_and_not_turned():
    target = fcc111("Cu", (2, 2, 2), a=3.6, vacuum=5.0)
    moved = target.copy()
    moved.positions += [3.1, -2.0, 7.5]
    moved.wrap()
    superpose(moved, target)
    np.testing.assert_allclose(moved.positions, target.positions, atol=1e-10)
    moved.rotate(10, "z")
    superpose(moved, target)
    assert np.abs(moved.positions - target.positions).max() > 0.2
