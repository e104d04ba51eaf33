"""Strain derivatives, products with many vectors, spectra, sparse Hessians, third order."""

from __future__ import annotations

from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest
from small_potentials import make_crystal, make_potential

from mlpot import derivatives, graph
from mlpot.models import Potential, PotentialConfig, V2106Config


@pytest.fixture(scope="module")
def crystal():
    with mx.stream(mx.cpu):
        # Third derivatives of radial tables jump at the knots, where differences do not see them.
        potential = make_potential(seed=5, radial="exact")
        potential.set_dtype(mx.float64)
        atoms = make_crystal(3)
        built = graph.build(
            atoms.numbers, atoms.positions, atoms.cell.array, True, cutoff=3.0, dtype=mx.float64
        )
        yield potential, built


@pytest.fixture(scope="module")
def chain():
    """A chain much longer than the receptive field: two convolutions, four hops."""
    with mx.stream(mx.cpu):
        mx.random.seed(2)
        model = V2106Config(channels=2, lmax=1, layers=1, number_of_basis=4, radial_neurons=[6])
        potential = Potential(PotentialConfig(numbers=[6], cutoff=1.8, model=model))
        potential.set_dtype(mx.float64)
        rng = np.random.default_rng(0)
        xyz = np.arange(40)[:, None] * [1.4, 0.0, 0.0] + rng.normal(scale=0.1, size=(40, 3))
        yield potential, graph.build([6] * 40, xyz, cutoff=1.8, dtype=mx.float64)


def slope(function, step: float = 3e-4) -> np.ndarray:
    """Derivative at 0 by differences of fourth order."""
    far, near = function(2 * step) - function(-2 * step), function(step) - function(-step)
    return (8 * near - far) / (12 * step)


def strained(potential, built, strain, positions=None):
    """Energy, gradient to positions before the strain, gradient to the strain (matrix)."""

    def energy(xyz, e):
        vectors = built.edge_vectors(xyz, 0.5 * (e + e.swapaxes(1, 2)))
        return potential.node_energies(built, vectors).sum()

    xyz = built.positions if positions is None else positions
    gradients = mx.grad(energy, argnums=(0, 1))(xyz, mx.array(strain[None], dtype=mx.float64))
    return [np.array(g) for g in gradients]


def test_strain_derivatives_against_finite_strains(crystal):
    found = derivatives.strain_derivatives(*crystal)
    directions = derivatives.strain_directions()
    for a, direction in enumerate(directions):
        mixed = slope(lambda t, d=direction: strained(*crystal, t * d)[0])
        second = slope(lambda t, d=direction: strained(*crystal, t * d)[1][0])
        row = np.einsum("bij,ij->b", directions, second)
        scale = np.abs(found.hessian).max()
        np.testing.assert_allclose(found.mixed[a], mixed, atol=1e-7 * np.abs(found.mixed).max())
        np.testing.assert_allclose(found.hessian[a], row, atol=1e-7 * scale)
    np.testing.assert_allclose(found.hessian, found.hessian.T, atol=1e-12 * scale)
    results = derivatives.energy_forces_stress(*crystal)
    voigt = np.array([np.array(results.stress)[0][i, j] for i, j in derivatives.strain.VOIGT])
    np.testing.assert_allclose(found.gradient / found.volume, voigt, rtol=1e-10, atol=1e-14)


def test_strain_derivatives_of_one_structure_only(crystal):
    potential, built = crystal
    with pytest.raises(ValueError, match="holds 2 structures"):
        derivatives.strain_derivatives(potential, graph.batch([built, built]))


@pytest.mark.parametrize("chunk", [None, 1, 3, 50])
def test_many_products_equal_single_ones(crystal, chunk):
    potential, built = crystal
    vectors = np.random.default_rng(1).normal(size=(7, built.n_atoms, 3))
    seen = []
    found = derivatives.hvps(
        potential, built, vectors, chunk=chunk, progress=lambda *state: seen.append(state)
    )
    singles = [
        np.array(derivatives.hvp(potential, built, mx.array(v, dtype=mx.float64))) for v in vectors
    ]
    np.testing.assert_allclose(found, singles, atol=1e-12 * np.abs(singles).max())
    assert seen[-1] == (7, 7)


def test_small_memory_means_small_chunks(crystal):
    seen = []
    vectors = np.ones((4, crystal[1].n_atoms, 3))
    derivatives.hvps(*crystal, vectors, memory=1, progress=lambda done, _: seen.append(done))
    assert seen == [1, 2, 3, 4]


def test_wrong_vectors_are_named(crystal):
    with pytest.raises(ValueError, match=r"expected \(n_vectors, 5, 3\)"):
        derivatives.hvps(*crystal, np.ones((5, 3)))
    with pytest.raises(ValueError, match="chunk is 0"):
        derivatives.hvps(*crystal, np.ones((1, 5, 3)), chunk=0)


def test_lowest_modes_are_those_of_the_whole_matrix(crystal):
    potential, built = crystal
    masses = np.array([12.0, 16.0, 1.0, 1.0, 16.0])
    weights = np.repeat(masses**-0.5, 3)
    whole = derivatives.hessian(potential, built) * weights[:, None] * weights
    values, vectors = np.linalg.eigh(whole)
    found = derivatives.lowest_modes(potential, built, 4, masses=masses)
    scale = np.abs(values).max()
    np.testing.assert_allclose(found.eigenvalues, values[:4], atol=1e-8 * scale)
    assert abs(np.vdot(found.vectors[0], vectors[:, 0])) > 1 - 1e-6
    assert found.products > 0


def test_modes_refuse_what_cannot_be(crystal, chain):
    with pytest.raises(ValueError, match="n is 15"):
        derivatives.lowest_modes(*crystal, 15)
    with pytest.raises(ValueError, match="5 positive numbers"):
        derivatives.lowest_modes(*crystal, 1, masses=[1.0, 2.0])
    with pytest.raises(ValueError, match="max_products=1"):
        derivatives.lowest_modes(*chain, 5, max_products=1, tolerance=1e-15)


def test_spectral_density_has_the_moments_of_the_hessian(crystal):
    potential, built = crystal
    values = np.linalg.eigvalsh(derivatives.hessian(potential, built))
    found = derivatives.spectral_density(potential, built, n_vectors=40, n_steps=10, seed=4)
    step = found.eigenvalues[1] - found.eigenvalues[0]
    total = found.density.sum() * step
    assert total == pytest.approx(15, rel=1e-3)
    mean = (found.density * found.eigenvalues).sum() * step / 15
    # The mean of v.Hv over random directions: its error falls as 1 / sqrt(vectors).
    error = np.sqrt(2 * np.sum((values - values.mean()) ** 2)) / 15 / np.sqrt(40)
    assert abs(mean - values.mean()) < 4 * error
    assert found.eigenvalues[0] < values[0] and found.eigenvalues[-1] > values[-1]
    with pytest.raises(ValueError, match="n_steps=1"):
        derivatives.spectral_density(potential, built, n_steps=1)


def test_sparse_hessian_equals_the_dense_one_with_fewer_products(chain):
    potential, built = chain
    seen = []
    sparse = derivatives.sparse_hessian(
        potential, built, progress=lambda _, wanted: seen.append(wanted)
    )
    dense = derivatives.hessian(potential, built)
    np.testing.assert_allclose(sparse.toarray(), dense, atol=1e-12 * np.abs(dense).max())
    assert seen[-1] < 3 * built.n_atoms / 2
    assert sparse.nnz < dense.size / 2


@pytest.mark.parametrize("name", ["v2106", "gate_points", "nequip"])
def test_hops_are_how_far_a_displacement_reaches(name):
    """In a chain with bonds to the next atoms only, each convolution reaches one atom further."""
    model = {"name": name, "channels": 4, "lmax": 1, "layers": 2, "radial": "exact"}
    config = PotentialConfig.model_validate({"numbers": [6], "cutoff": 1.8, "model": model})
    mx.random.seed(1)
    potential = Potential(config)
    potential.set_dtype(mx.float64)
    xyz = np.arange(12)[:, None] * [1.4, 0.0, 0.0]
    built = graph.build([6] * 12, xyz, cutoff=1.8, dtype=mx.float64)

    def first(positions):
        return potential.node_energies(built, built.edge_vectors(positions))[0]

    with mx.stream(mx.cpu):
        reach = np.abs(np.array(mx.grad(first)(built.positions))).max(axis=1)
    assert np.flatnonzero(reach > 1e-14).max() == potential.hops


def test_no_row_has_two_columns_of_a_colour(chain):
    pattern = derivatives.interaction_pattern(chain[1], 2)
    colors = derivatives.color_columns(pattern)
    for row in range(pattern.shape[0]):
        found = colors[pattern.indices[pattern.indptr[row] : pattern.indptr[row + 1]]]
        assert len(set(found)) == len(found)


def test_third_order_against_differences_of_products(crystal):
    potential, built = crystal
    rng = np.random.default_rng(8)
    u, v = (mx.array(rng.normal(size=(5, 3)), dtype=mx.float64) for _ in range(2))
    found = np.array(derivatives.third_order_product(potential, built, u, v))

    def product(t: float) -> np.ndarray:
        moved = replace(built, positions=built.positions + t * u)
        return np.array(derivatives.hvp(potential, moved, v))

    np.testing.assert_allclose(found, slope(product, 1e-4), atol=1e-7 * np.abs(found).max())
    swapped = np.array(derivatives.third_order_product(potential, built, v, u))
    np.testing.assert_allclose(found, swapped, atol=1e-12 * np.abs(found).max())
    with pytest.raises(ValueError, match="u has shape"):
        derivatives.third_order_product(potential, built, mx.ones((2, 3)), mx.ones((2, 3)))
