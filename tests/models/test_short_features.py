"""Features of 16 bits: the same on a GPU as rounded ones elsewhere, float32 for all else."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from emulated_gpu import assert_close, emulated_gpu, random_array
from mlx.utils import tree_flatten
from random_convolutions import random_edges, random_spec
from small_potentials import make_crystal, make_potential

from mlpot import derivatives, graph, kernels
from mlpot.models import short_features
from mlpot.models.radial_edges import TableWeights

#: Distance of neighbouring numbers, relative.
STEPS = {mx.float16: 2.0**-10, mx.bfloat16: 2.0**-7}
N_NODES, N_EDGES = 5, 20
SPEC = random_spec([(0, 1, 1, 4), (1, 1, 0, 4), (1, 1, 1, 4)], np.random.default_rng(0))
EDGES = random_edges(N_NODES, N_EDGES, np.random.default_rng(1))
FOUND = random_array((N_NODES, SPEC.dim_out), seed=1)


def given(from_table: bool) -> list[mx.array]:
    arrays = [random_array((N_NODES, SPEC.dim_x)), random_array((N_EDGES, SPEC.dim_y))]
    if from_table:
        return [*arrays, random_array((N_EDGES, 3)), random_array((9, SPEC.n_weights))]
    return [*arrays, random_array((N_EDGES, SPEC.n_weights))]


def values_and_slopes(from_table: bool, dtype: mx.Dtype) -> list[mx.array]:
    """The convolution, and the gradient of its sum with weights to each array."""
    rows = mx.array(np.random.default_rng(2).integers(0, 7, N_EDGES).astype(np.int32))

    def convolution(x, y, *weights):
        made: Any = weights[0]
        if from_table:
            powers, table = weights
            made = TableWeights(powers, table, rows)
        return short_features.convolution(SPEC, x, y, made, EDGES, dtype)

    arrays = given(from_table)
    (value,), slopes = mx.vjp(convolution, arrays, [FOUND])
    return [value, *slopes]


def energies_and_forces(potential, structure) -> tuple[np.ndarray, np.ndarray]:
    found = derivatives.energy_forces_stress(potential, structure, stress=False)
    return np.array(found.node_energies), np.array(found.forces)


def crystal(cutoff: float) -> graph.Graph:
    atoms = make_crystal()
    return graph.build(atoms.numbers, atoms.positions, atoms.cell.array, True, cutoff=cutoff)


@pytest.mark.emulated
@pytest.mark.parametrize("dtype", STEPS)
@pytest.mark.parametrize("from_table", [False, True])
def test_kernels_give_what_rounded_numbers_give(from_table, dtype):
    wanted = values_and_slopes(from_table, dtype)
    with emulated_gpu() as device:
        found = values_and_slopes(from_table, dtype)
    assert len(device.kernels) >= 2
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == other.dtype == mx.float32
        # Sums in another order are rounded to a neighbouring number now and then.
        assert_close(one, other, STEPS[dtype])


@pytest.mark.parametrize("dtype", STEPS)
@pytest.mark.parametrize("from_table", [False, True])
def test_errors_are_those_of_rounding(from_table, dtype):
    exact = values_and_slopes(from_table, mx.float32)
    for one, other in zip(values_and_slopes(from_table, dtype), exact, strict=True):
        assert_close(one, other, 3 * STEPS[dtype])
        assert float(mx.max(mx.abs(one - other))) > 0.02 * STEPS[dtype] * float(mx.max(other))
        assert mx.array_equal(one.astype(dtype).astype(mx.float32), one)


@pytest.mark.parametrize("dtype", STEPS)
def test_potentials(dtype):
    potential = make_potential(3)
    structure = crystal(potential.cutoff)
    energies, forces = energies_and_forces(potential, structure)
    potential.set_feature_dtype(dtype)
    assert potential.feature_dtype == dtype
    short_energies, short_forces = energies_and_forces(potential, structure)
    for short, exact in ((short_energies, energies), (short_forces, forces)):
        error = np.abs(short - exact).max() / np.abs(exact).max()
        assert 0 < error < 5 * STEPS[dtype]
    potential.set_feature_dtype("float32")
    again = energies_and_forces(potential, structure)
    assert np.array_equal(again[0], energies) and np.array_equal(again[1], forces)


def test_gradients_of_parameters_are_float32():
    potential = make_potential(4)
    structure = crystal(potential.cutoff)

    def loss(parameters):
        potential.update(parameters)
        found = derivatives.energy_forces_stress(potential, structure, stress=False)
        return (found.forces**2).sum()

    parameters = potential.trainable_parameters()
    exact: Any = tree_flatten(mx.grad(loss)(parameters))
    potential.set_feature_dtype("float16")
    found: Any = tree_flatten(mx.grad(loss)(parameters))
    largest = max(float(mx.max(mx.abs(array))) for _, array in exact if array.size)
    for (name, one), (_, other) in zip(found, exact, strict=True):
        assert one.dtype == mx.float32, name
        if one.size:
            assert float(mx.max(mx.abs(one - other))) < 0.01 * largest, name


def test_float64_stays_float64():
    potential = make_potential(5)
    with mx.stream(mx.cpu):
        potential.set_dtype(mx.float64)
        atoms = make_crystal()
        arguments = (atoms.numbers, atoms.positions, atoms.cell.array, True)
        structure = graph.build(*arguments, cutoff=potential.cutoff, dtype=mx.float64)
        before = energies_and_forces(potential, structure)
        potential.set_feature_dtype("bfloat16")
        after = energies_and_forces(potential, structure)
    assert np.array_equal(before[1], after[1]) and after[1].dtype == np.float64


def test_recorded_forces_follow_the_choice():
    potential = make_potential(6)
    structure = crystal(potential.cutoff)
    forces = derivatives.ReplayedForces(potential)
    exact = [np.array(forces(structure, False)[1]) for _ in range(4)][-1]
    potential.set_feature_dtype("bfloat16")
    short = [np.array(forces(structure, False)[1]) for _ in range(4)][-1]
    assert np.abs(short - exact).max() > 1e-4 * np.abs(exact).max()


@pytest.mark.emulated
def test_without_kernels_on_a_gpu_numbers_are_rounded_too():
    wanted = values_and_slopes(False, mx.bfloat16)
    with emulated_gpu() as device, kernels.use("reference"):
        found = values_and_slopes(False, mx.bfloat16)
    assert device.kernels == []
    for one, other in zip(found, wanted, strict=True):
        assert_close(one, other, STEPS[mx.bfloat16])


def test_other_types_are_refused():
    with pytest.raises(ValueError, match="feature_dtype is 'int8'; choose one of 'float32'"):
        make_potential(0).set_feature_dtype("int8")
