from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from mlpot import kernels
from mlpot.elements import COVALENT_RADII
from mlpot.models import ZBL

NUMBERS = [1, 6, 29]


def formula(z1: int, z2: int, r: np.ndarray, cutoff: float = 5.0) -> np.ndarray:
    """Universal screened repulsion from its published constants, in eV and Angstrom."""
    a = 0.8854 * 0.529177210903 / (z1**0.23 + z2**0.23)
    x = r / a
    phi = (
        0.18175 * np.exp(-3.19980 * x)
        + 0.50986 * np.exp(-0.94229 * x)
        + 0.28022 * np.exp(-0.40290 * x)
        + 0.02817 * np.exp(-0.20162 * x)
    )
    u = r / min(COVALENT_RADII[z1] + COVALENT_RADII[z2], cutoff)
    switch = 1 - 28 * u**6 + 48 * u**7 - 21 * u**8
    return np.where(u < 1, z1 * z2 * 14.399645478 / r * phi * switch, 0.0)


def pair_energies(z1: int, z2: int, distances, cutoff: float = 5.0, radial="exact") -> mx.array:
    """Differentiable energies of pairs, (n,)."""
    zbl = ZBL(NUMBERS, cutoff)
    n = len(distances)
    index = mx.array(np.tile([NUMBERS.index(z1), NUMBERS.index(z2)], n).astype(np.int32))
    senders = np.arange(2 * n) ^ 1
    edges = kernels.EdgeIndex.from_pairs(senders, np.arange(2 * n), 2 * n)
    x = mx.repeat(distances, 2)
    vectors = mx.stack([0.6 * x, 0.0 * x, -0.8 * x], axis=1)
    return zbl(index, vectors, edges, radial).reshape(n, 2).sum(axis=1)


@pytest.mark.parametrize("radial", ["exact", "table"])
@pytest.mark.parametrize(("z1", "z2"), [(1, 1), (1, 6), (6, 29), (29, 29)])
def test_agrees_with_the_formula(z1, z2, radial):
    r = np.linspace(0.05, 3.0, 60)
    with mx.stream(mx.cpu):
        found = np.array(pair_energies(z1, z2, mx.array(r, dtype=mx.float64), radial=radial))
    expected = formula(z1, z2, r)
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9 * expected.max())
    assert expected[0] > 100


def test_range_is_never_beyond_the_cutoff():
    with mx.stream(mx.cpu):
        r = mx.array(np.array([0.9, 1.0, 1.2]), dtype=mx.float64)
        found = np.array(pair_energies(29, 29, r, cutoff=1.0))
    assert found[0] > 0
    np.testing.assert_array_equal(found[1:], 0)


@pytest.mark.parametrize("radial", ["exact", "table"])
def test_vanishes_with_two_derivatives_at_its_range(radial):
    edge = COVALENT_RADII[6] + COVALENT_RADII[29]

    def derivative(order, r):
        def total(x):
            return pair_energies(6, 29, x, radial=radial).sum()

        for _ in range(order):
            total = (lambda f: lambda x: mx.grad(f)(x).sum())(total)
        return total(r).item()

    with mx.stream(mx.cpu):
        near = mx.array(np.array([edge - 1e-6]), dtype=mx.float64)
        far = mx.array(np.array([edge + 1e-6]), dtype=mx.float64)
        inside = [derivative(order, near) for order in range(4)]
        outside = [derivative(order, far) for order in range(4)]
    assert outside == [0, 0, 0, 0]
    assert abs(inside[0]) < 1e-13 and abs(inside[1]) < 1e-8 and abs(inside[2]) < 1e-2
    assert inside[3] < -1  # the third derivative jumps: class C2 and no more


@pytest.mark.parametrize("radial", ["exact", "table"])
def test_atoms_on_top_of_each_other_stay_finite(radial):
    with mx.stream(mx.cpu):
        value, slope = mx.value_and_grad(lambda x: pair_energies(6, 6, x, radial=radial).sum())(
            mx.array(np.zeros(1), dtype=mx.float64)
        )
    assert np.isfinite(value.item()) and value.item() > 1e5
    assert np.isfinite(slope.item())


def test_table_and_formula_agree_at_the_shortest_distances():
    r = np.array([2e-4, 9e-4, 1.1e-3, 2e-3, 4e-3, 7e-3])
    found = {}
    with mx.stream(mx.cpu):
        for radial in ("exact", "table"):
            value, slope = mx.value_and_grad(
                lambda x, radial=radial: pair_energies(6, 29, x, radial=radial).sum()
            )(mx.array(r, dtype=mx.float64))
            found[radial] = (value.item(), np.array(slope))
    assert found["table"][0] == pytest.approx(found["exact"][0], rel=1e-11)
    np.testing.assert_allclose(found["table"][1], found["exact"][1], rtol=1e-9, atol=0)
    np.testing.assert_array_equal(found["table"][1][:2], 0)  # flat below 1e-3


def test_no_edges_give_zeros():
    nothing = np.zeros(0, dtype=np.int32)
    edges = kernels.EdgeIndex.from_pairs(nothing, nothing, 2)
    found = ZBL(NUMBERS, 3.0)(mx.array([0, 1]), mx.zeros((0, 3)), edges)
    np.testing.assert_array_equal(np.array(found), [0, 0])


def test_the_table_has_the_derivatives_of_the_formula():
    r = np.random.default_rng(0).uniform(0.2, 2.2, 200)
    rng = np.random.default_rng(1)
    along = rng.normal(size=r.shape)

    def derivatives(radial, dtype):
        point, direction = mx.array(r, dtype=dtype), mx.array(along, dtype=dtype)

        def force(x):
            return mx.grad(lambda x: pair_energies(6, 29, x, radial=radial).sum())(x)

        first = force(point)
        return np.array(first), np.array(mx.jvp(force, [point], [direction])[1][0])

    with mx.stream(mx.cpu):
        exact, found = derivatives("exact", mx.float64), derivatives("table", mx.float64)
        single = derivatives("table", mx.float32)
    for wanted, one, rough, tolerance in zip(exact, found, single, (1e-9, 1e-6), strict=True):
        np.testing.assert_allclose(one, wanted, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(rough, wanted, rtol=2e-5, atol=2e-6 * np.abs(wanted).max())


def test_many_species_use_the_formula():
    zbl = ZBL(list(range(1, 10)), 4.0)
    assert not zbl._takes_table("table", 100, mx.float32)
    assert ZBL(NUMBERS, 4.0)._takes_table("table", 100, mx.float32)
