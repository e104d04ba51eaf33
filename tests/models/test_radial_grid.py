"""Quintic Hermite interpolation between knots against polynomials and analytic functions."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from nestings import check_nestings
from numpy.polynomial import Polynomial

from mlpot.models.radial_grid import RadialGrid


def interpolant(grid: RadialGrid, values, slopes, curvatures):
    """The interpolant of one function given at `knots`, as a function of lengths."""
    columns = [mx.array(a[:, None], dtype=mx.float64) for a in (values, slopes, curvatures)]
    coefficients = grid.coefficients(*columns)[..., 0]

    def function(r: mx.array) -> mx.array:
        rows, powers = grid.locate(r)
        return (powers * mx.take(coefficients, rows // 6, axis=0)).sum(axis=1)

    return function


def of(grid: RadialGrid, f: Polynomial):
    return interpolant(grid, f(grid.knots), f.deriv(1)(grid.knots), f.deriv(2)(grid.knots))


@pytest.fixture(autouse=True)
def on_the_cpu():
    with mx.stream(mx.cpu):
        yield


@pytest.mark.parametrize("breakpoints", [(), (1.3,), (0.5, 1.7, 4.0)])
@pytest.mark.parametrize("n", [1, 2, 7, 100])
def test_polynomials_of_degree_five_are_exact(breakpoints, n):
    grid = RadialGrid(4.5, n, breakpoints)
    rng = np.random.default_rng(n)
    f = Polynomial(rng.normal(size=6))
    r = rng.uniform(0, 4.5, 200)
    own = of(grid, f)
    x = mx.array(r, dtype=mx.float64)
    slope = lambda q: mx.grad(lambda p: own(p).sum())(q)  # noqa: E731
    curvature = mx.jvp(slope, [x], [mx.ones_like(x)])[1][0]
    for found, expected in ((own(x), f(r)), (slope(x), f.deriv(1)(r)), (curvature, f.deriv(2)(r))):
        scale = np.abs(expected).max()
        np.testing.assert_allclose(np.array(found), expected, rtol=0, atol=1e-9 * scale)


@pytest.mark.parametrize("breakpoints", [(), (1.3,), (0.5, 1.7, 4.0)])
def test_knots_lie_on_ends_and_breakpoints(breakpoints):
    grid = RadialGrid(4.5, 50, breakpoints)
    ends = [0.0, *breakpoints]
    for end in ends:
        assert np.abs(grid.left - end).min() < 1e-11
    assert grid.left[-1] + grid.widths[-1] == pytest.approx(4.5, abs=1e-11)
    np.testing.assert_allclose(grid.left[1:], (grid.left + grid.widths)[:-1], rtol=0, atol=1e-11)
    assert grid.n_intervals >= 50
    assert np.all(grid.widths < 1.01 * 4.5 / 50)
    # Each piece is evaluated within its own ends.
    assert len(grid.knots) == grid.n_intervals + len(ends)
    for end in [*breakpoints, 4.5]:
        distance = grid.knots - end
        assert np.any((distance < 0) & (distance > -1e-11))
        assert end == 4.5 or np.any((distance > 0) & (distance < 1e-11))


def test_a_jump_of_a_derivative_stays_where_it_is():
    """|r - 2|^3 / 6 + (r > 2): a jump of the value at 2, and of the third derivative."""
    grid = RadialGrid(5.0, 40, (2.0,))
    d, above = grid.knots - 2.0, (grid.knots >= 2.0) * 1.0
    own = interpolant(grid, np.abs(d) ** 3 / 6 + above, d * np.abs(d) / 2, np.abs(d))
    r = np.array([1.2, 1.999999, 2.0, 2.000001, 3.3])
    expected = np.abs(r - 2.0) ** 3 / 6 + (r >= 2.0)
    np.testing.assert_allclose(np.array(own(mx.array(r, dtype=mx.float64))), expected, atol=1e-13)


def test_twice_continuously_differentiable_at_every_knot():
    grid = RadialGrid(3.0, 12, (1.1,))
    rng = np.random.default_rng(0)
    # Any numbers at the knots, but equal ones where two pieces meet, and zeros at the cutoff.
    data = rng.normal(size=(3, len(grid.knots)))
    meet = int(
        np.flatnonzero(np.isclose(grid.knots[1:], 1.1) & np.isclose(grid.knots[:-1], 1.1))[0]
    )
    data[:, meet + 1] = data[:, meet]
    data[:, -1] = 0
    own = interpolant(grid, *data)
    slope = lambda q: mx.grad(lambda p: own(p).sum())(q)  # noqa: E731
    inner = np.append(grid.left[1:], 3.0)
    step = 1e-9
    sides = []
    for side in (-step, step):
        x = mx.array(inner + side, dtype=mx.float64)
        first, second = mx.jvp(slope, [x], [mx.ones_like(x)])
        sides.append([np.array(own(x)), np.array(first[0]), np.array(second[0])])
    for below, above in zip(*sides, strict=True):
        assert np.abs(below).max() > 0.5
        np.testing.assert_allclose(above, below, rtol=0, atol=1e-4)


def test_exactly_zero_from_the_cutoff_on():
    grid = RadialGrid(2.5, 16)
    own = interpolant(grid, *np.ones((3, len(grid.knots))))
    for dtype in (mx.float32, mx.float64):
        r = mx.array([2.5, 2.5000001, 3.0, 1e9], dtype=dtype)
        rows, powers = grid.locate(r)
        index = rows // 6
        assert np.all((np.array(index) >= 0) & (np.array(index) < grid.n_intervals))
        assert np.all(np.array(powers) == 0)
    far = mx.array([2.5, 3.0, 1e9], dtype=mx.float64)
    assert np.all(np.array(mx.grad(lambda r: own(r).sum())(far)) == 0)
    assert own(mx.array([np.nextafter(2.5, 0)], dtype=mx.float64)).item() == pytest.approx(1.0)


def test_powers_have_every_derivative():
    grid = RadialGrid(3.0, 4)
    check_nestings(lambda r: grid.locate(r)[1], np.array([0.1, 0.9, 1.4, 2.7]), step=1e-3)


def test_float32_lengths_are_located_as_well_as_they_are_known():
    grid = RadialGrid(5.2, 1000, (3.0,))
    r = np.random.default_rng(0).uniform(0.5, 5.2, 2000).astype(np.float32)
    rows, powers = (np.array(a) for a in grid.locate(mx.array(r)))
    index = rows // 6
    t = (r.astype(np.float64) - grid.left[index]) / grid.widths[index]
    assert t.min() > -1e-3
    assert t.max() < 1 + 1e-3
    # The interval that begins at 3 is given by three digits, which float32 has exactly.
    np.testing.assert_allclose(powers[:, 1], t, rtol=0, atol=1e-6)


def test_float32_slopes_are_as_accurate_as_float32():
    grid = RadialGrid(5.0, 1000)
    k = grid.knots
    data = [a[:, None] for a in (np.sin(3 * k), 3 * np.cos(3 * k), -9 * np.sin(3 * k))]
    table = grid.coefficients(*(mx.array(a, dtype=mx.float64) for a in data)).astype(mx.float32)

    def total(r: mx.array) -> mx.array:
        rows, powers = grid.locate(r)
        index = rows // 6
        return (powers * mx.take(table[..., 0], index, axis=0)).sum()

    r = np.random.default_rng(1).uniform(0.1, 4.9, 2000).astype(np.float32)
    slope = np.array(mx.grad(total)(mx.array(r)))
    np.testing.assert_allclose(slope, 3 * np.cos(3 * r.astype(np.float64)), rtol=0, atol=2e-6)


def test_bad_breakpoints_are_named():
    for breakpoints in ((0.0,), (2.0, 1.0), (5.0,), (1.0, 1.0)):
        with pytest.raises(ValueError, match="must ascend"):
            RadialGrid(5.0, 10, breakpoints)
