"""What every Hessian must fulfil, as tightly as float64 allows."""

from __future__ import annotations

from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest
from small_potentials import make_crystal

from mlpot import derivatives, graph, kernels
from mlpot.models import Potential, PotentialConfig

MODELS = ["v2106", "gate_points", "nequip"]


@pytest.fixture(params=MODELS)
def potential(request) -> Potential:
    mx.random.seed(9)
    model = {"name": request.param, "channels": 4, "lmax": 2, "layers": 1, "radial": "exact"}
    config = {"numbers": [1, 6, 8], "cutoff": 3.0, "model": model}
    potential = Potential(PotentialConfig.model_validate(config))
    potential.set_dtype(mx.float64)
    return potential


@pytest.fixture(autouse=True)
def on_the_cpu():
    with mx.stream(mx.cpu):
        yield


def crystal() -> graph.Graph:
    atoms = make_crystal(3)
    return graph.build(
        atoms.numbers, atoms.positions, atoms.cell.array, True, cutoff=3.0, dtype=mx.float64
    )


def molecule() -> graph.Graph:
    """Hydrogen peroxide with a carbon beside it, at no minimum."""
    xyz = [[0, 0, 0], [1.4, 0.1, 0], [-0.3, 0.9, 0.2], [1.7, -0.6, 0.7], [0.6, 1.0, 1.3]]
    return graph.build([8, 8, 1, 1, 6], xyz, cutoff=3.0, dtype=mx.float64)


def forces(potential, built, positions) -> np.ndarray:
    moved = replace(built, positions=mx.array(positions, dtype=mx.float64))
    return np.array(derivatives.energy_forces_stress(potential, moved, stress=False).forces)


@pytest.mark.parametrize("structure", [crystal, molecule])
def test_equals_differences_of_forces(potential, structure):
    built, step = structure(), 2e-4
    xyz = np.array(built.positions)
    v = np.random.default_rng(0).normal(size=xyz.shape)

    def slope(direction: np.ndarray) -> np.ndarray:
        at = {k: forces(potential, built, xyz + k * step * direction) for k in (-2, -1, 1, 2)}
        return -(8 * (at[1] - at[-1]) - (at[2] - at[-2])) / (12 * step)

    product = np.array(derivatives.hvp(potential, built, mx.array(v, dtype=mx.float64)))
    np.testing.assert_allclose(product, slope(v), atol=1e-7 * np.abs(product).max())
    found = derivatives.hessian(potential, built)
    expected = np.array([slope(one) for one in np.eye(xyz.size).reshape(-1, *xyz.shape)])
    scale = np.abs(found).max()
    np.testing.assert_allclose(found, expected.reshape(found.shape), atol=1e-7 * scale)


@pytest.mark.parametrize("structure", [crystal, molecule])
def test_symmetry_and_translations(potential, structure):
    found = derivatives.hessian(potential, structure())
    scale = np.abs(found).max()
    np.testing.assert_allclose(found, found.T, atol=1e-12 * scale)
    sums = found.reshape(len(found), -1, 3).sum(axis=1)
    assert np.abs(sums).max() < 1e-10 * scale


def test_rotations_of_a_molecule(potential):
    """Turning a molecule turns its gradient g: H (w x r) = w x g."""
    built = molecule()
    xyz = np.array(built.positions)
    gradient = -forces(potential, built, xyz)
    found = derivatives.hessian(potential, built)
    assert np.abs(gradient).max() > 1e-3
    for axis in np.eye(3):
        turned = found @ np.cross(axis, xyz).ravel()
        expected = np.cross(axis, gradient).ravel()
        np.testing.assert_allclose(turned, expected, atol=1e-10 * np.abs(found).max())


@pytest.mark.parametrize("structure", [crystal, molecule])
def test_kernels_equal_the_reference(potential, structure):
    built = structure()
    found = derivatives.hessian(potential, built)
    with kernels.use("reference"):
        expected = derivatives.hessian(potential, built)
    np.testing.assert_allclose(found, expected, atol=1e-10 * np.abs(expected).max())
