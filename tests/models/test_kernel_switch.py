"""The switch use_custom_kernel of e3nn's networks, in values and derivatives."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_map

from mlpot import kernels
from mlpot.models import gate_points, v2106

PRIMITIVES = ("convolution", "harmonics", "block_linear", "gate", "length", "direction")


def simple(use):
    return v2106.SimpleNetwork("2x0e", "1x0e", 2.0, 3.0, 6.0, 2, 1, 1, use_custom_kernel=use)


def points_2101(use):
    return gate_points.Network2101(
        *("2x0e", "3x0e+2x1o", "1x0e", None, "1x0e+1x1o", 1, 2.0, 4, 1, 5, 3.0, 6.0),
        use_custom_kernel=use,
    )


@pytest.mark.parametrize("make", [simple, points_2101])
@pytest.mark.parametrize("use", [True, False])
def test_networks_keep_the_choice_in_derivatives(use, make):
    rng = np.random.default_rng(0)
    with mx.stream(mx.cpu):
        network, twin = make(use), make(None)
        # Drawn anew: the factors that mix in the convolutions begin at zero.
        parameters = tree_map(
            lambda a: mx.array(0.5 * rng.normal(size=a.shape), dtype=mx.float64),
            network.parameters(),
        )
        network.update(parameters)
        twin.update(parameters)
        x = mx.array(rng.normal(size=(6, 2)), dtype=mx.float64)
        positions = mx.array(rng.normal(size=(6, 3)), dtype=mx.float64)
        direction = mx.array(rng.normal(size=(6, 3)), dtype=mx.float64)

        def response(model):
            energy = lambda p: mx.sum(model({"pos": p, "x": x}) ** 2)  # noqa: E731
            return mx.jvp(mx.grad(energy), [positions], [direction])[1][0]

        wanted = response(twin)
        mx.eval(wanted)
        kernels.clear_report()
        found = response(network)
        mx.eval(found)
        ran = {c.backend for c in kernels.report() if c.primitive.startswith(PRIMITIVES)}
        assert ran == {"native" if use else "reference"}
        assert float(mx.max(mx.abs(wanted))) > 1e-3
        assert float(mx.max(mx.abs(found - wanted))) < 1e-11 * float(mx.max(mx.abs(wanted)))


@pytest.mark.parametrize("use", [True, False])
def test_a_block_around_a_call_holds_for_its_derivatives(use):
    with mx.stream(mx.cpu):
        index = mx.array([0, 1, 1])
        x = mx.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])

        def value(a):
            with kernels.forced(use):
                return mx.sum(kernels.silu(kernels.segment_sum(a, index, 2)))

        kernels.clear_report()
        gradient = mx.grad(lambda a: mx.sum(mx.grad(value)(a) ** 2))(x)
        mx.eval(gradient)
        ran = {c.backend for c in kernels.report()}
        assert ran == {"native" if use else "reference"}


@pytest.mark.parametrize("n_atoms", [0, 1])
@pytest.mark.parametrize("use", [True, False, None])
def test_networks_take_atoms_without_neighbours(use, n_atoms):
    with mx.stream(mx.cpu):
        network = v2106.SimpleNetwork("2x0e", "1x0e", 2.0, 3.0, 6.0, 2, 1, 1, use_custom_kernel=use)
        energy = lambda p: mx.sum(network({"pos": p, "x": mx.ones((n_atoms, 2))}))  # noqa: E731
        at = mx.zeros((n_atoms, 3))
        response = mx.jvp(mx.grad(energy), [at], [at + 1])[1][0]
        assert np.array_equal(response, np.zeros((n_atoms, 3)))
