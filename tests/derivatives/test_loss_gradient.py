"""The gradient of a loss on energies, forces and stress with respect to the weights."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten, tree_unflatten

from mlpot import derivatives, graph, models


@pytest.mark.parametrize("part", ["interaction_energy", "node_energies", "forces", "stress"])
def test_against_differences(part):
    rng = np.random.default_rng(0)
    mx.random.seed(0)
    small = models.V2106Config(channels=2, lmax=1, radial_neurons=[8])
    config = models.PotentialConfig(numbers=[1, 8], cutoff=3.0, model=small)
    potential = models.Potential(config)
    potential.set_dtype(mx.float64)
    cell = 4.0 * np.eye(3) + 0.3 * rng.normal(size=(3, 3))
    structure = graph.build(
        np.array([8, 1, 1, 8]),
        rng.random((4, 3)) @ cell,
        cell,
        True,
        cutoff=3.0,
        dtype=mx.float64,
    )
    start = dict(tree_flatten(potential.trainable_parameters()))

    def loss(parameters):
        potential.update(parameters)
        values = getattr(derivatives.energy_forces_stress(potential, structure), part)
        return (values * values).sum()

    gradient = dict(tree_flatten(mx.grad(loss)(tree_unflatten(list(start.items())))))
    directions = {
        name: mx.array(rng.normal(size=weight.shape), dtype=mx.float64)
        for name, weight in start.items()
    }
    h = 1e-6
    ends = []
    for sign in (1, -1):
        moved = {name: w + sign * h * directions[name] for name, w in start.items()}
        ends.append(loss(tree_unflatten(list(moved.items()))).item())
    got = sum((gradient[name] * directions[name]).sum().item() for name in start)
    assert got == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-6)
