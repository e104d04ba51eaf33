"""Descriptors of structures and choices by them."""

from __future__ import annotations

import numpy as np
import pytest
from ase.build import bulk, molecule
from scipy.spatial.transform import Rotation

from mlpot.datasets import Frame
from mlpot.datasets.descriptors import (
    describe_frames,
    distances_to,
    element_vectors,
    farthest_points,
)


def test_descriptors_know_no_rotation_order_or_cell():
    ethanol = Frame.from_atoms(molecule("CH3CH2OH"))
    turn = Rotation.from_rotvec([0.3, -1.2, 0.5]).as_matrix()
    order = np.random.default_rng(0).permutation(ethanol.n_atoms)
    same = Frame(ethanol.numbers[order], (ethanol.positions @ turn.T + 3.0)[order])
    copper = bulk("Cu", a=3.6, cubic=True)
    frames = [
        ethanol,
        same,
        Frame.from_atoms(copper),
        Frame.from_atoms(copper.repeat((2, 1, 1))),
    ]
    points = describe_frames(frames, 4.0, [1, 6, 8, 29])
    np.testing.assert_allclose(points[0], points[1], atol=1e-12)
    np.testing.assert_allclose(points[2], points[3], atol=1e-12)
    assert np.linalg.norm(points[0] - points[2]) > 0.1


def test_descriptors_are_smooth_and_tell_what_differs():
    atoms = molecule("CH3CH2OH")
    moved = atoms.copy()
    moved.positions[3] += [0, 0, 1e-4]
    mirrored_isomer = molecule("CH3OCH3")
    frames = [Frame.from_atoms(one) for one in (atoms, moved, mirrored_isomer)]
    points = describe_frames(frames, 5.0, [1, 6, 8])
    small, large = (np.linalg.norm(points[k] - points[0]) for k in (1, 2))
    assert 0 < small < 1e-3 < 0.1 < large  # the same composition, another molecule
    # The first shell of fcc has no direction (l = 1) by symmetry, a surface atom has one.
    (perfect,) = describe_frames([Frame.from_atoms(bulk("Cu", a=3.6))], 3.0, [29])
    assert perfect[:8].max() > 0.5
    np.testing.assert_allclose(perfect[8:24], 0, atol=1e-9)  # nor l = 2: cubic


def test_many_elements_share_axes():
    assert len(element_vectors([1, 6, 8])[1]) == 3
    many = element_vectors(range(1, 90))
    assert {len(vector) for vector in many.values()} == {4}
    np.testing.assert_array_equal(many[7], element_vectors([*range(1, 20), 50])[7])
    assert all(np.linalg.norm(many[z] - many[z + 1]) > 1e-3 for z in range(1, 88))


def test_farthest_points_are_chosen_one_after_another():
    line = np.array([[0.0], [1.0], [2.0], [10.0], [10.1]])
    # From 0 the farthest is 10.1, then 2 (distance 2 from 0), then 1.
    assert farthest_points(line, 4, known=line[:1]) == [4, 2, 1, 3]
    assert farthest_points(line, 9, known=line[:1]) == [4, 2, 1, 3]  # 0 is known
    assert farthest_points(line, 2, weights=np.array([1.0, 1, 5, 1, 1])) == [2, 4]
    assert farthest_points(line, 2, known=line[:1], weights=np.array([1.0, 1, 9, 1, 1])) == [2, 4]
    assert farthest_points(line, 2)[0] == 4  # farthest from the mean, 4.62
    assert farthest_points(line[:0], 3) == []
    assert distances_to(line, np.array([[0.5], [9.0]])) == pytest.approx([0.5, 0.5, 1.5, 1, 1.1])
