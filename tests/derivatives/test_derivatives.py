from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from mlpot import derivatives, graph
from mlpot.models import Potential, PotentialConfig, V2106Config


@pytest.fixture
def case():
    mx.random.seed(0)
    model = V2106Config(channels=2, lmax=1, layers=1)
    with mx.stream(mx.cpu):
        potential = Potential(PotentialConfig(numbers=[1, 8], cutoff=3.0, model=model))
        potential.set_dtype(mx.float64)
        xyz = [[0.0, 0.0, 0.1], [0.76, 0.1, -0.48], [-0.76, 0.0, -0.48], [0.2, 1.5, 0.9]]
        yield potential, graph.build([8, 1, 1, 8], xyz, cutoff=3.0, dtype=mx.float64)


@pytest.mark.parametrize("chunk", [1, 5, 12, 100])
def test_chunks_do_not_matter(case, chunk):
    np.testing.assert_allclose(
        derivatives.hessian(*case, chunk=chunk), derivatives.hessian(*case), rtol=0, atol=1e-11
    )


def test_rows_are_rows_of_the_whole(case):
    whole = derivatives.hessian(*case)
    found = derivatives.hessian(*case, rows=[2, 0])
    assert found.shape == (6, 12)
    expected = whole.reshape(4, 3, 12)[[2, 0]].reshape(6, 12)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-11)
    assert np.abs(whole).max() > 1e-3
    assert derivatives.hessian(*case, rows=[]).shape == (0, 12)


def test_progress_counts_rows(case):
    seen = []
    derivatives.hessian(*case, chunk=5, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(5, 12), (10, 12), (12, 12)]


def test_bad_arguments_are_named(case):
    with pytest.raises(ValueError, match="chunk is 0"):
        derivatives.hessian(*case, chunk=0)
    for rows in ([4], [-1]):
        with pytest.raises(ValueError, match=r"outside 0\.\.3"):
            derivatives.hessian(*case, rows=rows)
    with pytest.raises(ValueError, match="one vector per atom"):
        derivatives.hvp(*case, mx.zeros((3, 3)))


def test_stress_only_where_asked_for(case):
    with_stress = derivatives.energy_forces_stress(*case)
    without = derivatives.energy_forces_stress(*case, stress=False)
    assert without.stress is None
    np.testing.assert_array_equal(np.array(with_stress.stress), np.zeros((1, 3, 3)))
    np.testing.assert_allclose(np.array(with_stress.forces), np.array(without.forces), atol=1e-12)


def test_forces_add_up_to_nothing(case):
    results = derivatives.energy_forces_stress(*case)
    forces = np.array(results.forces)
    assert np.abs(forces).max() > 1e-3
    np.testing.assert_allclose(forces.sum(axis=0), 0, atol=1e-11)
    nodes = np.array(results.node_energies)
    np.testing.assert_allclose(np.array(results.interaction_energy), [nodes.sum()], atol=1e-12)


def test_energies_have_second_derivatives_in_the_weights():
    """Forward over reverse in the weights, the isolated atoms' share included."""
    potential = Potential(
        PotentialConfig(numbers=[1, 8], cutoff=3.0, model=V2106Config(channels=2, lmax=1, layers=1))
    )
    potential.set_dtype(mx.float64)
    positions = np.array([[0.0, 0, 0], [1.1, 0, 0.2]])
    pair = graph.build([1, 8], positions, cutoff=3.0, dtype=mx.float64)
    weight = potential.network.mp.layers[-1].sc.weight

    def energy(w):
        potential.network.mp.layers[-1].sc.weight = w
        return (potential.node_energies(pair) ** 2).sum()

    along = mx.ones_like(weight)
    product = np.array(mx.jvp(mx.grad(energy), [weight], [along])[1][0])
    plus, minus = (np.array(mx.grad(energy)(weight + h * along)) for h in (1e-4, -1e-4))
    assert np.abs(product).max() > 0
    assert np.abs((plus - minus) / 2e-4 - product).max() < 1e-6 * np.abs(product).max()
