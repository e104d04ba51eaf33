"""Recorded energies and forces: the same bits, never those of other weights."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_map
from small_potentials import make_crystal, make_potential

from mlpot import graph, kernels
from mlpot.derivatives import ReplayedForces, ReplayedProducts, energy_forces_stress, hvp
from mlpot.derivatives.records import CALLS_BEFORE_RECORDING, MOST_SIZES


@pytest.fixture
def potential():
    return make_potential(7)


def crystal(seed: int = 0, dtype=mx.float32, repeat: int = 1):
    atoms = make_crystal(seed).repeat((repeat, 1, 1))
    built = graph.build(
        atoms.numbers, atoms.positions, atoms.cell.array, True, cutoff=3.0, dtype=dtype
    )
    return graph.pad(built, n_atoms=5 * repeat + 3, n_edges=64 * repeat)


def assert_equal(found, potential, built, stress: bool = True):
    plain = energy_forces_stress(potential, built, stress=stress)
    np.testing.assert_array_equal(np.array(found[0]), np.array(plain.node_energies))
    np.testing.assert_array_equal(np.array(found[1]), np.array(plain.forces))
    if stress:
        np.testing.assert_array_equal(np.array(found[2]), np.array(plain.stress))
    else:
        assert found[2] is None


@pytest.mark.parametrize("stress", [True, False])
@pytest.mark.parametrize("dtype", [mx.float32, mx.float64])
def test_the_same_bits_as_without_a_record(potential, dtype, stress):
    with mx.stream(mx.cpu):
        potential.set_dtype(dtype)
        replayed = ReplayedForces(potential)
        for call in range(CALLS_BEFORE_RECORDING + 3):
            built = crystal(call, dtype)
            assert_equal(replayed(built, stress), potential, built, stress)
            assert replayed.n_records == (1 if call >= CALLS_BEFORE_RECORDING else 0)


def test_new_weights_are_seen(potential):
    replayed = ReplayedForces(potential)
    built = crystal()
    for _ in range(CALLS_BEFORE_RECORDING + 1):
        before = np.array(replayed(built, True)[1])
    assert replayed.n_records == 1
    potential.update(tree_map(lambda p: 1.1 * p, potential.parameters()))
    mx.eval(potential.parameters())
    for _ in range(CALLS_BEFORE_RECORDING + 2):
        found = replayed(built, True)
        assert_equal(found, potential, built)
        assert not np.array_equal(np.array(found[1]), before)


def test_weights_changed_in_place_are_seen(potential):
    replayed = ReplayedForces(potential)
    built = crystal()
    for _ in range(CALLS_BEFORE_RECORDING + 1):
        replayed(built, True)
    potential.network.embedding.weight *= 1.5
    mx.eval(potential.parameters())
    for _ in range(CALLS_BEFORE_RECORDING + 2):
        assert_equal(replayed(built, True), potential, built)


def test_another_backend_is_another_record(potential):
    replayed = ReplayedForces(potential)
    built = crystal()
    for _ in range(CALLS_BEFORE_RECORDING + 1):
        replayed(built, True)
    with kernels.use("reference"):
        for _ in range(CALLS_BEFORE_RECORDING + 2):
            assert_equal(replayed(built, True), potential, built)


def test_without_custom_kernels_there_is_another_record(potential):
    replayed = ReplayedForces(potential)
    built = crystal()
    for force in (False, None):
        with kernels.forced(force):
            for _ in range(CALLS_BEFORE_RECORDING + 2):
                assert_equal(replayed(built, True), potential, built)
            assert replayed.n_records == 1


def test_another_choice_of_radial_tables_is_another_record():
    potential = make_potential(7, radial="table")
    replayed = ReplayedForces(potential)
    built = crystal()
    found = []
    for intervals, strategy in ((1024, "table"), (4096, "table"), (4096, "exact")):
        potential.set_radial_intervals([intervals] * len(potential.radial_intervals))
        potential.network.radial_strategy = strategy
        for _ in range(CALLS_BEFORE_RECORDING + 2):
            assert_equal(replayed(built, True), potential, built)
        assert replayed.n_records == 1
        found.append(np.array(replayed(built, True)[1]))
    assert not np.array_equal(found[0], found[1])
    assert not np.array_equal(found[1], found[2])


def test_sizes_are_forgotten_in_time(potential):
    replayed = ReplayedForces(potential)
    for n_atoms in range(6, 6 + MOST_SIZES + 5):
        built = graph.pad(crystal(), n_atoms=n_atoms + 8, n_edges=80, n_graphs=12)
        for _ in range(CALLS_BEFORE_RECORDING + 1):
            mx.eval(replayed(built, False)[1])
    assert replayed.n_records == MOST_SIZES


def test_inside_a_derivative_nothing_is_recorded(potential):
    """The loss of a training step differentiates with respect to the weights."""
    replayed = ReplayedForces(potential)
    built = crystal()

    def loss(weight):
        potential.network.embedding.weight = weight
        return mx.square(replayed(built, False)[1]).sum()

    weight = potential.network.embedding.weight
    for _ in range(CALLS_BEFORE_RECORDING + 2):
        gradient = mx.grad(loss)(weight)
    potential.network.embedding.weight = weight
    assert np.abs(np.array(gradient)).max() > 0
    assert replayed.n_records == 0


@pytest.mark.parametrize("dtype", [mx.float32, mx.float64])
def test_products_are_the_same_bits_and_follow_the_weights(potential, dtype):
    rng = np.random.default_rng(3)
    with mx.stream(mx.cpu):
        potential.set_dtype(dtype)
        replayed = ReplayedProducts(potential)
        for change in (1.0, 1.3):
            potential.update(tree_map(lambda p, c=change: c * p, potential.parameters()))
            mx.eval(potential.parameters())
            for call in range(CALLS_BEFORE_RECORDING + 3):
                built = crystal(call, dtype)
                v = mx.array(rng.normal(size=built.positions.shape), dtype=dtype)
                plain = np.array(hvp(potential, built, v))
                np.testing.assert_array_equal(np.array(replayed(built, v)), plain)
                assert np.abs(plain).max() > 0
                assert replayed.n_records == (1 if call >= CALLS_BEFORE_RECORDING else 0)
